//! Which paths a limit is for: `/login`, `/users/{id}`, `/static/*`.

/// The parts of a path between slashes.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
    /// Whether anything may follow.
    is_open: bool,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Any,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "expected a path such as \"/login\", \"/users/{id}\" or \"/static/*\"";
        let path = text.strip_prefix('/').ok_or(EXPECTED)?;
        let (path, is_open) = match path.strip_suffix('*') {
            Some("") => return Ok(Self { parts: Vec::new(), is_open: true }),
            Some(path) => (path.strip_suffix('/').ok_or(EXPECTED)?, true),
            None => (path, false),
        };
        let part = |part: &str| match part.strip_prefix('{').map(|part| part.strip_suffix('}')) {
            Some(Some(name)) if !name.contains(['{', '}', ':']) => Ok(Part::Any),
            None if !part.contains(['{', '}', '*']) => Ok(Part::Text(part.to_owned())),
            _ => Err(EXPECTED),
        };
        Ok(Self { parts: path.split('/').map(part).collect::<Result<_, _>>()?, is_open })
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        let Some(path) = path.strip_prefix('/') else { return false };
        let mut found = path.split('/');
        let begins = self.parts.iter().all(|part| match (part, found.next()) {
            (Part::Text(text), Some(found)) => text == found,
            (Part::Any, Some(found)) => !found.is_empty(),
            (_, None) => false,
        });
        begins && (self.is_open || found.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn a_pattern_matches_part_by_part() {
        for (pattern, paths, others) in [
            ("/", &["/"][..], &["", "/a", "*"][..]),
            ("/login", &["/login"], &["/login/", "/log", "/login/a"]),
            ("/users/{id}", &["/users/7", "/users/a.b"], &["/users", "/users/", "/users/7/a"]),
            ("/users/{id}/posts", &["/users/7/posts"], &["/users/7", "/users//posts"]),
            ("/static/*", &["/static", "/static/", "/static/a/b"], &["/statics", "/"]),
            ("/*", &["/", "/a/b"], &["*"]),
        ] {
            let pattern = Pattern::parse(pattern).unwrap();
            for path in paths {
                assert!(pattern.matches(path), "{pattern:?} {path}");
            }
            for path in others {
                assert!(!pattern.matches(path), "{pattern:?} {path}");
            }
        }
    }

    #[test]
    fn what_is_no_path_is_an_error() {
        for text in ["", "login", "/a*", "/*/a", "/{id", "/a{id}", "/{id:.*}", "/}"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }
}
