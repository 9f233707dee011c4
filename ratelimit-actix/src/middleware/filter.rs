//! Which requests a middleware limits: by route, path and method.

use std::cell::OnceCell;

use actix_web::HttpRequest;
use actix_web::http::Method;

/// Everything that is included and not excluded; without an inclusion everything is included.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    include: Places,
    exclude: Places,
    methods: Option<Vec<Method>>,
}

/// Routes and paths.
#[derive(Clone, Debug, Default)]
struct Places {
    patterns: Vec<String>,
    prefixes: Vec<String>,
}

impl Filter {
    pub(super) fn include_pattern(&mut self, pattern: String) {
        self.include.patterns.push(pattern);
    }

    pub(super) fn include_prefix(&mut self, prefix: String) {
        self.include.prefixes.push(prefix);
    }

    pub(super) fn exclude_pattern(&mut self, pattern: String) {
        self.exclude.patterns.push(pattern);
    }

    pub(super) fn exclude_prefix(&mut self, prefix: String) {
        self.exclude.prefixes.push(prefix);
    }

    pub(super) fn methods(&mut self, mut methods: Vec<Method>) {
        // Otherwise the one would be a way around the limit of the other.
        if methods.contains(&Method::GET) && !methods.contains(&Method::HEAD) {
            methods.push(Method::HEAD);
        }
        self.methods = Some(methods);
    }

    pub(super) fn applies_to(&self, req: &HttpRequest) -> bool {
        if self.methods.as_ref().is_some_and(|methods| !methods.contains(req.method())) {
            return false;
        }
        // The path as the router reads it: the raw one has spellings (`/%61pi`) that reach the same handler.
        let path = req.match_info().as_str();
        let pattern = Pattern { path, known: OnceCell::new() };
        (self.include.is_empty() || self.include.contains(req, &pattern))
            && !self.exclude.contains(req, &pattern)
    }
}

/// The pattern of the route that a path leads to; looked for when it is first needed.
struct Pattern<'a> {
    path: &'a str,
    known: OnceCell<Option<String>>,
}

impl Places {
    fn is_empty(&self) -> bool {
        self.patterns.is_empty() && self.prefixes.is_empty()
    }

    fn contains(&self, req: &HttpRequest, pattern: &Pattern<'_>) -> bool {
        let below = |prefix: &String| is_below(pattern.path, prefix);
        if self.prefixes.iter().any(below) {
            return true;
        }
        if self.patterns.is_empty() {
            return false;
        }
        let path = pattern.path;
        let known = pattern.known.get_or_init(|| {
            // Before the route is chosen this goes by the raw path, which is right when that has one spelling.
            if req.path() == path { req.match_pattern() } else { req.resource_map().match_pattern(path) }
        });
        known.as_ref().is_some_and(|known| self.patterns.contains(known))
    }
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
