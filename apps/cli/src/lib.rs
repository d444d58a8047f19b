//! What people type: commands, waiting, tables, exit codes.
