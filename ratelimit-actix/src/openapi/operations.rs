//! Which operation of a document belongs to which handler.

use std::collections::BTreeSet;
use std::fmt;

use utoipa::openapi::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};

use crate::handler::registry::{DeclaredLimit, declared_limits};

/// Operations of an OpenAPI document whose handler is not clear. `Display` has a line for each.
#[derive(Clone, thiserror::Error, PartialEq, Eq)]
#[error("{}", .lines.join("\n"))]
pub struct UnclearOperationsError {
    lines: Vec<String>,
}

/// As `Display`: this is what a `main` prints that returns the error.
impl fmt::Debug for UnclearOperationsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl UnclearOperationsError {
    pub(super) fn new(lines: Vec<String>) -> Self {
        Self { lines }
    }
}

/// The operations with limits, and what is unclear.
pub(super) struct Found<'d> {
    pub(super) operations: Vec<(&'d mut Operation, Vec<DeclaredLimit>)>,
    pub(super) unclear: Vec<String>,
}

/// Finds the limits of each operation. `assigned` are pairs of an `operationId` and the path of a handler.
pub(super) fn find<'d>(document: &'d mut OpenApi, assigned: &[(String, String)]) -> Found<'d> {
    let limits = declared_limits();
    let (mut operations, mut unclear) = (Vec::new(), Vec::new());
    let (mut seen, mut known) = (BTreeSet::new(), BTreeSet::new());
    let twice = ids_of_several(document);
    for operation in document.paths.paths.values_mut().flat_map(operations_of) {
        let Some(id) = operation.operation_id.clone() else { continue };
        let assigned = assigned.iter().find(|(of, _)| *of == id).map(|(_, handler)| handler.as_str());
        let belongs = |limit: &&DeclaredLimit| match assigned {
            Some(handler) => ends_with_path(&path(limit), handler),
            None => function(limit) == id,
        };
        seen.insert(id.clone());
        if twice.contains(&id) {
            if limits.iter().any(|limit| belongs(&limit)) && known.insert(id.clone()) {
                unclear.push(format!(
                    "several operations have the id `{id}`, so it is not clear which of them is limited; give each an id of its own by `operation_id`"
                ));
            }
            continue;
        }
        let own: Vec<DeclaredLimit> = limits.iter().filter(belongs).copied().collect();
        let handlers: BTreeSet<String> = own.iter().map(path).collect();
        match (handlers.len(), assigned) {
            (0, None) => {}
            (0, Some(handler)) => {
                unclear.push(format!("no limited handler has the path `{handler}` of the operation `{id}`"));
            }
            (1, _) => operations.push((operation, own)),
            (_, _) => {
                let handlers: Vec<_> = handlers.into_iter().collect();
                unclear.push(format!(
                    "the operation `{id}` may belong to `{}`: choose one with `.operation(\"{id}\", \"{}\")`",
                    handlers.join("` or `"),
                    handlers[0]
                ));
            }
        }
    }
    for (id, _) in assigned.iter().filter(|(id, _)| !seen.contains(id)) {
        unclear.push(format!("the document has no operation with the id `{id}`"));
    }
    Found { operations, unclear }
}

/// The ids that more than one operation has, which no document should have.
fn ids_of_several(document: &mut OpenApi) -> BTreeSet<String> {
    let (mut once, mut several) = (BTreeSet::new(), BTreeSet::new());
    for operation in document.paths.paths.values_mut().flat_map(operations_of) {
        if let Some(id) = &operation.operation_id
            && !once.insert(id.clone())
        {
            several.insert(id.clone());
        }
    }
    several
}

/// The operations of a path, one for each method.
fn operations_of(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem {
        get, put, post, delete, options, head, patch, trace, query, additional_operations, ..
    } = item;
    let usual = [get, put, post, delete, options, head, patch, trace, query];
    usual.into_iter().flatten().chain(additional_operations.values_mut())
}

/// The path of the handler, which no other handler has.
fn path(limit: &DeclaredLimit) -> String {
    format!("{}::{}", limit.module(), limit.handler())
}

/// The name of the handler's function, without a type around it.
fn function(limit: &DeclaredLimit) -> &'static str {
    limit.handler().rsplit("::").next().unwrap_or_default().trim_start_matches("r#")
}

/// Whether a path ends with the segments of another one.
fn ends_with_path(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|start| start.is_empty() || start.ends_with("::"))
}

#[cfg(test)]
mod tests {
    use super::ends_with_path;

    #[test]
    fn a_path_ends_with_whole_segments() {
        for (end, expected) in
            [("a::b::c", true), ("b::c", true), ("c", true), ("::c", false), ("b", false), ("xb::c", false)]
        {
            assert_eq!(ends_with_path("a::b::c", end), expected, "{end}");
        }
        assert!(!ends_with_path("a::list", "st"));
    }
}
