//! Types whose inherent methods stand in several files: a method that calls one in another file uses that
//! file, without a path.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Expr, ExprMethodCall, ExprPath, ImplItem, ItemImpl, Type};

use crate::graph::Arrows;

/// The inherent methods of a crate, by the file of their type and its name.
#[derive(Default)]
pub(crate) struct Methods(BTreeMap<TypeName, Vec<Block>>);

/// The file that defines a type, and its name.
pub(crate) type TypeName = (String, String);

/// The inherent methods of one type in one file.
struct Block {
    file: String,
    methods: BTreeSet<String>,
}

/// A call of a method.
pub(crate) struct MethodCall {
    /// The name of the type as it is written, if the call says it; `Self` within a block.
    type_name: Option<String>,
    method: String,
}

impl Methods {
    /// Adds a block of a type that another file may define.
    pub(crate) fn add(&mut self, of: TypeName, file: &str, methods: &[String]) {
        let methods = methods.iter().cloned().collect();
        self.0.entry(of).or_default().push(Block { file: file.to_owned(), methods });
    }

    /// The type that alone has a method of this name, if it has a block in this file.
    fn only_owner(&self, file: &str, method: &str) -> Option<&TypeName> {
        let has = |blocks: &[Block]| blocks.iter().any(|block| block.methods.contains(method));
        let mut owners = self.0.iter().filter(|(_, blocks)| has(blocks));
        let (name, blocks) = owners.next()?;
        let is_here = blocks.iter().any(|block| block.file == file);
        (is_here && owners.next().is_none()).then_some(name)
    }

    /// Adds the arrows of calls in a file. `type_of` finds the type that a name means there.
    pub(crate) fn add_arrows(
        &self,
        file: &str,
        calls: &[MethodCall],
        type_of: impl Fn(&str) -> Option<TypeName>,
        arrows: &mut Arrows,
    ) {
        for MethodCall { type_name, method } in calls {
            let of = match type_name {
                Some(name) => type_of(name),
                None => self.only_owner(file, method).cloned(),
            };
            let Some((blocks, (_, name))) = of.and_then(|of| Some((self.0.get(&of)?, of))) else { continue };
            let files: BTreeSet<&str> = blocks.iter().map(|block| block.file.as_str()).collect();
            let called = blocks.iter().find(|block| block.methods.contains(method));
            if let Some(called) = called.filter(|called| files.len() > 1 && called.file != file) {
                let arrow = (file.to_owned(), called.file.clone());
                arrows.entry(arrow).or_insert_with(|| format!("{name}::{method}"));
            }
        }
    }
}

/// The name of a block's type, and its methods, if it is no trait's.
pub(crate) fn inherent(block: &ItemImpl) -> Option<(String, Vec<String>)> {
    let name = type_of(block).filter(|_| block.trait_.is_none())?;
    let methods = block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(method) => Some(method.sig.ident.to_string()),
        _ => None,
    });
    Some((name, methods.collect()))
}

/// The name of a block's type.
fn type_of(block: &ItemImpl) -> Option<String> {
    match &*block.self_ty {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    }
}

/// Collects the calls in a block, or outside of any.
#[derive(Default)]
pub(crate) struct Calls {
    pub(crate) found: Vec<MethodCall>,
    /// The type of the block around.
    block: Option<String>,
}

impl Calls {
    /// The calls of an item.
    pub(crate) fn of(item: &syn::Item) -> Vec<MethodCall> {
        let block = if let syn::Item::Impl(block) = item { type_of(block) } else { None };
        let mut calls = Self { found: Vec::new(), block };
        calls.visit_item(item);
        calls.found
    }
}

impl<'a> Visit<'a> for Calls {
    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !crate::modules::is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        let is_self = matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident("self"));
        let type_name = if is_self { self.block.clone() } else { None };
        self.found.push(MethodCall { type_name, method: call.method.to_string() });
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'a ExprPath) {
        let mut segments = path.path.segments.iter().rev();
        if let (Some(method), Some(of)) = (segments.next(), segments.next()) {
            let of = of.ident.to_string();
            let type_name = if of == "Self" { self.block.clone() } else { Some(of) };
            if type_name.is_some() {
                self.found.push(MethodCall { type_name, method: method.ident.to_string() });
            }
        }
        visit::visit_expr_path(self, path);
    }
}
