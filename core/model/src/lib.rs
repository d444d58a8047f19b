//! Values every part of Persys speaks in: ids, resources, specs, phases, tokens.
