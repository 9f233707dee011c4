//! The modules of a crate, what their paths name, and which file uses which.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, Item, ItemMod, ItemUse, Macro, UseTree, Visibility};

use crate::graph::Arrows;
use crate::methods::{Calls, MethodCall, Methods, TypeName, inherent};

/// From the crate's root.
type ModulePath = Vec<String>;

/// Follows no chain of imports that is longer: two modules may import each other's names.
const MAX_IMPORTS: usize = 16;

#[derive(Default)]
pub(crate) struct Modules(BTreeMap<ModulePath, Module>);

/// A module in a file, or one written out in another.
#[derive(Default)]
struct Module {
    /// Below `src`.
    file: String,
    /// Items that are written here, without imports and modules.
    defined: BTreeSet<String>,
    /// What `use` names here, by the name it has here.
    imports: BTreeMap<String, ModulePath>,
    globs: Vec<ModulePath>,
    passed_globs: Vec<ModulePath>,
    /// The names that only leave the module again by `pub use`, which uses nothing here.
    passed_on: BTreeSet<String>,
    /// The methods of inherent blocks, by the name of their type.
    methods: Vec<(String, Vec<String>)>,
    calls: Vec<MethodCall>,
    /// Every path that is written here, outside of `use` as well.
    paths: Vec<ModulePath>,
}

/// Reads the crate whose root is `lib.rs` in a folder.
pub(crate) fn read(src: &Path) -> io::Result<Modules> {
    let mut modules = Modules::default();
    modules.read_file(src, "lib.rs", Vec::new())?;
    Ok(modules)
}

impl Modules {
    fn read_file(&mut self, src: &Path, file: &str, module: ModulePath) -> io::Result<()> {
        let text = std::fs::read_to_string(src.join(file))
            .map_err(|error| io::Error::new(error.kind(), format!("{file}: {error}")))?;
        for (child, file) in self.add(file, module, &text)? {
            self.read_file(src, &file, child)?;
        }
        Ok(())
    }

    /// Adds a file, and returns the modules that have files of their own, with these.
    pub(crate) fn add(
        &mut self,
        file: &str,
        module: ModulePath,
        text: &str,
    ) -> io::Result<Vec<(ModulePath, String)>> {
        let parsed = syn::parse_file(text).map_err(|error| io::Error::other(format!("{file}: {error}")))?;
        let mut children = Vec::new();
        self.add_items(file, module, &parsed.items, &mut children);
        Ok(children)
    }

    fn add_items(
        &mut self,
        file: &str,
        path: ModulePath,
        items: &[Item],
        children: &mut Vec<(ModulePath, String)>,
    ) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for item in items {
            match item {
                Item::Mod(ItemMod { attrs, .. }) if is_test(attrs) => {}
                Item::Mod(ItemMod { attrs, ident, content, .. }) => {
                    let child = joined(&path, [ident.to_string()]);
                    if let Some((_, items)) = content {
                        self.add_items(file, child, items, children);
                    } else {
                        let file = path_attribute(attrs).unwrap_or_else(|| format!("{}.rs", child.join("/")));
                        children.push((child, file));
                    }
                }
                _ => module.visit_item(item),
            }
        }
        self.0.insert(path, module);
    }

    /// The file that defines what a path names in a module; `None` if another crate does, or a local name.
    fn file_of(&self, module: &[String], path: &[String], imports: usize) -> Option<&str> {
        let mut at = module.to_vec();
        let mut rest = path;
        let mut is_first = true;
        while let Some((name, after)) = rest.split_first() {
            let here = self.0.get(&at)?;
            match name.as_str() {
                "crate" if is_first => at = Vec::new(),
                "self" => {}
                "super" => {
                    at.pop()?;
                }
                _ => {
                    let child = joined(&at, [name.clone()]);
                    if self.0.contains_key(&child) {
                        at = child;
                    } else if here.defined.contains(name) {
                        return Some(&here.file);
                    } else if imports == MAX_IMPORTS {
                        return None;
                    } else if let Some(import) = here.imports.get(name) {
                        return self.file_of(&at, &joined(import, after.iter().cloned()), imports + 1);
                    } else {
                        let found = here.globs.iter().chain(&here.passed_globs).find_map(|glob| {
                            self.file_of(&at, &joined(glob, rest.iter().cloned()), imports + 1)
                        });
                        // A name of another crate, or one that a macro makes in this module.
                        return found.or((!is_first).then_some(&here.file));
                    }
                }
            }
            (rest, is_first) = (after, false);
        }
        Some(&self.0.get(&at)?.file)
    }

    /// Which file uses which. Each may use the crate's root.
    pub(crate) fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (path, module) in &self.0 {
            let imports = module.imports.iter().filter(|(name, _)| !module.passed_on.contains(*name));
            for used in imports.map(|(_, used)| used).chain(&module.globs).chain(&module.paths) {
                if let Some(file) = self.file_of(path, used, 0)
                    && file != module.file
                {
                    arrows.entry((module.file.clone(), file.to_owned())).or_insert_with(|| used.join("::"));
                }
            }
        }
        let type_of = |path: &[String], name: &str| -> Option<TypeName> {
            Some((self.file_of(path, &[name.to_owned()], 0)?.to_owned(), name.to_owned()))
        };
        let mut methods = Methods::default();
        for (path, module) in &self.0 {
            for (name, here) in &module.methods {
                if let Some(of) = type_of(path, name) {
                    methods.add(of, &module.file, here);
                }
            }
        }
        for (path, module) in &self.0 {
            methods.add_arrows(&module.file, &module.calls, |name| type_of(path, name), &mut arrows);
        }
        arrows.retain(|(_, to), _| to != "lib.rs");
        arrows
    }

    pub(crate) fn files(&self) -> usize {
        self.0.values().map(|module| &module.file).collect::<BTreeSet<_>>().len()
    }
}

impl Module {
    fn import(&mut self, tree: &UseTree, prefix: &[String]) {
        let with = |name: &Ident| joined(prefix, [name.to_string()]);
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &with(&path.ident)),
            // `use a::{self}` names the module.
            UseTree::Name(name) if name.ident == "self" => {
                let last = prefix.last().cloned().unwrap_or_default();
                self.imports.insert(last, prefix.to_vec());
            }
            UseTree::Name(name) => {
                self.imports.insert(name.ident.to_string(), with(&name.ident));
            }
            UseTree::Rename(rename) => {
                // `as _` has no name, but is a use all the same.
                self.imports.insert(
                    if rename.rename == "_" {
                        with(&rename.ident).join("::")
                    } else {
                        rename.rename.to_string()
                    },
                    with(&rename.ident),
                );
            }
            UseTree::Glob(_) => self.globs.push(prefix.to_vec()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, prefix)),
        }
    }

    /// Paths in the text of a macro call, which is not parsed: those that begin with `crate`, `self` or
    /// `super`.
    fn paths_in(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => self.paths_in(group.stream()),
                TokenTree::Ident(first) if first == "crate" || first == "super" || first == "self" => {
                    let mut path = vec![first.to_string()];
                    while let Some(TokenTree::Punct(_)) =
                        tokens.next_if(|next| matches!(next, TokenTree::Punct(one) if one.as_char() == ':'))
                    {
                        if let Some(TokenTree::Ident(name)) =
                            tokens.next_if(|next| matches!(next, TokenTree::Ident(_)))
                        {
                            path.push(name.to_string());
                        }
                    }
                    if path.len() > 1 {
                        self.paths.push(path);
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'a> Visit<'a> for Module {
    fn visit_item(&mut self, item: &'a Item) {
        let (attrs, name) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Impl(item) => (&item.attrs, None),
            Item::Use(item) => (&item.attrs, None),
            Item::Mod(item) => (&item.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if is_test(attrs) {
            return;
        }
        self.defined.extend(name.map(ToString::to_string));
        if let Item::Impl(block) = item {
            self.methods.extend(inherent(block));
        }
        self.calls.extend(Calls::of(item));
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        let known: BTreeSet<String> = self.imports.keys().cloned().collect();
        let globs = self.globs.len();
        self.import(&item.tree, &[]);
        if !matches!(item.vis, Visibility::Inherited) {
            self.passed_on.extend(self.imports.keys().filter(|name| !known.contains(*name)).cloned());
            self.passed_globs.extend(self.globs.split_off(globs));
        }
    }

    // `pub(super)` uses nothing.
    fn visit_visibility(&mut self, _: &'a Visibility) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.leading_colon.is_none() {
            self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'a Macro) {
        self.paths_in(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}

fn joined(path: &[String], rest: impl IntoIterator<Item = String>) -> ModulePath {
    path.iter().cloned().chain(rest).collect()
}

/// The file that `#[path = ".."]` names; only `lib.rs` may have one, so that it is below `src`.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(syn::MetaNameValue { path, value: syn::Expr::Lit(value), .. })
            if path.is_ident("path") =>
        {
            match &value.lit {
                syn::Lit::Str(file) => Some(file.value()),
                _ => None,
            }
        }
        _ => None,
    })
}

/// Whether an item exists in tests only: `cfg(test)`, alone or with more conditions.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let condition = list.tokens.to_string();
        list.path.is_ident("cfg")
            && (condition == "test"
                || condition.starts_with("all (test,")
                || condition.starts_with("all(test,"))
    })
}
