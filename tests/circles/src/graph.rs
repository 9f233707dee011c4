//! Circles of a directed graph.

use std::collections::{BTreeMap, VecDeque};

/// From a file to another that it uses, and the first path that says so.
pub(crate) type Arrows = BTreeMap<(String, String), String>;

/// Circles that share no file: of all files that lead to each other, the shortest circle, as its arrows in
/// order.
pub(crate) fn circles(arrows: &Arrows) -> Vec<Vec<(String, String)>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        next.entry(from).or_default().push(to);
    }
    let mut all: Vec<Vec<&str>> =
        arrows.keys().filter_map(|(from, to)| shortest_path(&next, to, from)).collect();
    all.sort_by_key(|files| (files.len(), files.iter().min().copied()));
    let mut found: Vec<Vec<&str>> = Vec::new();
    for files in all {
        let meets = |other: &Vec<&str>| {
            shortest_path(&next, files[0], other[0]).is_some()
                && shortest_path(&next, other[0], files[0]).is_some()
        };
        if !found.iter().any(meets) {
            found.push(files);
        }
    }
    found.into_iter().map(arrows_between).collect()
}

/// The arrows of a circle, from the file whose name is first.
fn arrows_between(mut files: Vec<&str>) -> Vec<(String, String)> {
    let first = (0..files.len()).min_by_key(|&at| files[at]).unwrap_or(0);
    files.rotate_left(first);
    files.push(files[0]);
    files.windows(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect()
}

fn shortest_path<'a>(
    next: &BTreeMap<&'a str, Vec<&'a str>>,
    from: &'a str,
    to: &str,
) -> Option<Vec<&'a str>> {
    let mut came_from = BTreeMap::from([(from, None)]);
    let mut queue = VecDeque::from([from]);
    while let Some(file) = queue.pop_front() {
        if file == to {
            let mut path = vec![file];
            let mut at = file;
            while let Some(before) = came_from[at] {
                path.push(before);
                at = before;
            }
            path.reverse();
            return Some(path);
        }
        for &other in next.get(file).into_iter().flatten() {
            if !came_from.contains_key(other) {
                came_from.insert(other, Some(file));
                queue.push_back(other);
            }
        }
    }
    None
}
