//! What one route is: a row that says which method of the contract it asks, and how.

use axum::http::Method;

/// How a route is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Looks.
    Get,
    /// Does.
    Post,
    /// Puts something in its place.
    Put,
    /// Takes away.
    Delete,
}

impl Verb {
    /// The method of HTTP.
    pub fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Post => Method::POST,
            Self::Put => Method::PUT,
            Self::Delete => Method::DELETE,
        }
    }

    /// Whether asking changes nothing.
    pub fn is_safe(self) -> bool {
        self == Self::Get
    }
}

/// Where a value of the request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The part of the path with this name.
    Path(&'static str),
    /// The parameter of the query with this name.
    Query(&'static str),
    /// The same, and it is `true` or `false`.
    Flag(&'static str),
    /// It is always this.
    Always(&'static str),
    /// It is always there, with nothing in it.
    Empty,
}

/// One value of the request: where it comes from, and where in the message it goes, with dots
/// between the names of messages inside messages.
#[derive(Debug, Clone, Copy)]
pub struct Fill(pub Source, pub &'static str);

/// What the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    /// The message as it is.
    Plain,
    /// A list, in pages and by filters.
    Pages {
        /// Which field holds the list.
        field: &'static str,
        /// Which field of an entry names it, or which ones do, with commas; entries are sorted by it.
        key: &'static str,
        /// Which fields of an entry can be asked for by the query.
        filters: &'static [&'static str],
    },
    /// The message, in which a field says whether it was done. Where it was not, that is a problem.
    Verdict {
        /// Which field says so.
        flag: &'static str,
        /// Which one says why not.
        why: &'static str,
    },
}

/// One route.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// How it is asked.
    pub verb: Verb,
    /// Where.
    pub path: &'static str,
    /// Which method of the contract answers.
    pub rpc: &'static str,
    /// Whether a body may say what the message holds.
    pub body: bool,
    /// What else goes into the message.
    pub fill: &'static [Fill],
    /// What comes back.
    pub gives: Gives,
    /// What it is for, in a line.
    pub about: &'static str,
}

impl Row {
    /// Whether it is one of the resources that came after the first clients.
    pub fn is_new(&self) -> bool {
        self.path.starts_with("/v1/")
    }

    /// The same route with the cluster in its path.
    pub fn in_cluster(&self) -> String {
        match self.path.strip_prefix("/v1/") {
            Some(rest) => format!("/v1/clusters/{{cluster_id}}/{rest}"),
            None => format!("/clusters/{{cluster_id}}{}", self.path),
        }
    }

    /// The parameters of the query it knows, beside that of the cluster.
    pub fn parameters(&self) -> Vec<&'static str> {
        let fills = self.fill.iter().filter_map(|Fill(source, _)| match source {
            Source::Query(name) | Source::Flag(name) => Some(*name),
            Source::Path(_) | Source::Always(_) | Source::Empty => None,
        });
        let mut all: Vec<_> = fills.collect();
        if let Gives::Pages { filters, .. } = self.gives {
            all.extend(filters);
            all.extend(["limit", "page_token"]);
        }
        all
    }
}
