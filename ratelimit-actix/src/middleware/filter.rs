//! The requests that a middleware limits.

use std::borrow::Cow;
use std::cell::OnceCell;

use actix_web::HttpRequest;
use actix_web::http::Method;

/// Requests that are included and not excluded. Without an inclusion, all requests are included.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) include: PathSet,
    pub(super) exclude: PathSet,
    methods: Option<Vec<Method>>,
}

/// A set of paths, by the patterns of their routes and by prefixes.
#[derive(Clone, Debug, Default)]
pub(super) struct PathSet {
    pub(super) patterns: Vec<String>,
    pub(super) prefixes: Vec<String>,
}

impl Filter {
    pub(super) fn methods(&mut self, mut methods: Vec<Method>) {
        // Otherwise `HEAD` would bypass the limit of `GET`.
        if methods.contains(&Method::GET) && !methods.contains(&Method::HEAD) {
            methods.push(Method::HEAD);
        }
        self.methods = Some(methods);
    }

    pub(super) fn applies_to(&self, req: &HttpRequest) -> bool {
        if self.methods.as_ref().is_some_and(|methods| !methods.contains(req.method())) {
            return false;
        }
        // The path as the router reads it. The raw path has other spellings (`/%61pi`) that reach the same
        // handler.
        let path = Path::new(req, req.match_info().as_str());
        (self.include.is_empty() || self.include.contains_a_spelling(&path))
            && !self.exclude.contains_all(&path)
    }
}

/// The path of a request, and the pattern of its route, which is looked up on first use.
struct Path<'a> {
    req: &'a HttpRequest,
    text: Cow<'a, str>,
    pattern: OnceCell<Option<String>>,
}

impl<'a> Path<'a> {
    fn new(req: &'a HttpRequest, text: impl Into<Cow<'a, str>>) -> Self {
        Self { req, text: text.into(), pattern: OnceCell::new() }
    }

    fn pattern(&self) -> Option<&String> {
        let known = self.pattern.get_or_init(|| {
            // Before routing, `match_pattern` uses the raw path, which is right if that is the path as it is.
            if self.req.path() == self.text {
                self.req.match_pattern()
            } else {
                self.req.resource_map().match_pattern(&self.text)
            }
        });
        known.as_ref()
    }

    /// The shortest path that `NormalizePath` can produce: with merged slashes and without one at the end.
    /// `None` if that is the same path.
    fn shortest(&self) -> Option<Self> {
        let merged = merge_slashes(&self.text);
        let shortest = match merged.strip_suffix('/') {
            Some("") | None => merged,
            Some(trimmed) => Cow::Owned(trimmed.to_owned()),
        };
        (shortest != self.text).then(|| Self::new(self.req, shortest.into_owned()))
    }

    /// The path with one slash at the end.
    fn with_slash(&self) -> Self {
        Self::new(self.req, format!("{}/", self.text.trim_end_matches('/')))
    }
}

impl PathSet {
    fn is_empty(&self) -> bool {
        self.patterns.is_empty() && self.prefixes.is_empty()
    }

    fn contains(&self, path: &Path<'_>) -> bool {
        self.prefixes.iter().any(|prefix| is_below(&path.text, prefix))
            || (!self.patterns.is_empty()
                && path.pattern().is_some_and(|known| self.patterns.contains(known)))
    }

    /// Whether the path is here, as it is or as `NormalizePath` may rewrite it after the middleware has run.
    /// Otherwise `//login` would bypass the limit of `/login`.
    fn contains_a_spelling(&self, path: &Path<'_>) -> bool {
        if self.contains(path) {
            return true;
        }
        let shortest = path.shortest();
        let shortest = shortest.as_ref().unwrap_or(path);
        // Prefixes ignore the end of the path, so only patterns need the slash.
        self.contains(shortest) || (!self.patterns.is_empty() && self.contains(&shortest.with_slash()))
    }

    /// Whether the path is here as it is, and also if it is rewritten to the path of another route.
    fn contains_all(&self, path: &Path<'_>) -> bool {
        self.contains(path)
            && path.shortest().is_none_or(|other| self.contains(&other) || other.pattern().is_none())
    }
}

/// Merges consecutive slashes.
fn merge_slashes(path: &str) -> Cow<'_, str> {
    if !path.contains("//") {
        return Cow::Borrowed(path);
    }
    let mut merged = String::with_capacity(path.len());
    for letter in path.chars() {
        if letter != '/' || !merged.ends_with('/') {
            merged.push(letter);
        }
    }
    Cow::Owned(merged)
}

/// Whether `path` is `prefix` or below it.
fn is_below(path: &str, prefix: &str) -> bool {
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_are_merged_as_normalize_path_does() {
        let cases = [
            ("/login", None),
            ("/", None),
            ("", None),
            ("//", Some("/")),
            ("//login", Some("/login")),
            ("/login/", Some("/login")),
            ("/login//", Some("/login")),
            ("/a///b//", Some("/a/b")),
            ("/./login", None),
        ];
        let req = actix_web::test::TestRequest::default().to_http_request();
        for (path, expected) in cases {
            let shortest = Path::new(&req, path).shortest();
            assert_eq!(shortest.as_ref().map(|shortest| &*shortest.text), expected, "{path}");
        }
    }

    #[test]
    fn a_prefix_ends_where_a_segment_ends() {
        let cases = [
            ("/health", "/health", true),
            ("/health/", "/health", true),
            ("/health/live", "/health", true),
            ("/health/live", "/health/", true),
            ("/healthy", "/health", false),
            ("/api/health", "/health", false),
            ("//health", "/health", false),
            ("/anything", "/", true),
            ("/anything", "", true),
        ];
        for (path, prefix, expected) in cases {
            assert_eq!(is_below(path, prefix), expected, "{path} {prefix}");
        }
    }
}
