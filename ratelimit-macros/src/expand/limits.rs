//! Writes out the constant part of a handler's limits.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ExprPath;

use crate::diagnostics::{located, located_at_start};
use crate::expand::paths::Facade;
use crate::expand::per_request::{self, CALLER, PLAN, Returned};
use crate::parse::args::rows::with_arguments;
use crate::parse::args::table::ARGUMENTS;
use crate::parse::args::{Args, Argument, value_of};
use crate::parse::code::by::By;
use crate::parse::code::request_fn::RequestFn;
use crate::parse::code::tokens::{code_text, path_text};
use crate::parse::kind::Kind;
use crate::parse::usage::{Of, Usage};
use crate::parse::values::algorithm::Algorithm;
use crate::parse::values::bounds::is_name;
use crate::parse::values::calendar::{Anchor, Window};
use crate::parse::values::choice::{ChargeTime, Choice, Count, Mode, OnError, OnMissing, Responses, Show};
use crate::parse::values::name::{Key, Text};
use crate::parse::values::number::Number;
use crate::parse::values::window::Length;
use crate::validate::spec::HandlerSpec;

/// The `static` with the limits of the handler, and the entry in the list of all limits that refers to it.
pub(crate) fn declaration(spec: &HandlerSpec) -> TokenStream {
    let span = Span::mixed_site();
    let facade = Facade::of(spec);
    let private = facade.private(span);
    let name = spec.handler.path();
    let limits =
        spec.limits.iter().enumerate().map(|(index, limit)| self::limit(facade, &name, index, limit));
    let count = Literal::usize_unsuffixed(spec.limits.len());
    // Spanned at the handler's name: elsewhere it would be the line of the attribute.
    let line = quote_spanned!(spec.handler.signature.ident.span()=> ::core::line!());
    quote_spanned! {span=>
        static __RATE_LIMIT: #private::Declaration<[#private::WrittenLimit; #count]> = #private::Declaration {
            handler: #name,
            module: ::core::module_path!(),
            file: ::core::file!(),
            line: #line,
            limits: [#(#limits),*],
        };
        #private::inventory::submit!(#private::Declared(&__RATE_LIMIT));
    }
}

/// One limit of the handler `handler`, at `index` among its limits.
fn limit(facade: Facade<'_>, handler: &str, index: usize, limit: &Args) -> TokenStream {
    let start = match value_of(limit.policy.as_ref()) {
        None => own_policy(facade, handler, index, limit),
        Some(path) => {
            let start = shared_policy(facade, limit.kind, path);
            let computed = computed(facade, limit).map(|values| quote!(.computed(#values)));
            quote!(#start #computed)
        }
    };
    let by = limit.caller().filter(|by| !matches!(by, By::Ip)).map(|by| {
        let by = self::by(facade, by, Span::mixed_site());
        quote_spanned!(Span::mixed_site()=> .by(#by))
    });
    let setters = setters(facade, limit, Of::Limit);
    let text = text(limit);
    quote_spanned!(Span::mixed_site()=> #start #by #setters #text)
}

/// Returns true if values of the limit are computed before it is checked.
pub(crate) fn is_computed(facade: Facade<'_>, limit: &Args) -> bool {
    limit.caller().is_some_and(|by| !by.is_immediate()) || computed(facade, limit).is_some()
}

/// What is computed for each request.
fn computed(facade: Facade<'_>, limit: &Args) -> Option<TokenStream> {
    let site = Span::mixed_site();
    let private = facade.private(site);
    let fields = values(limit).filter_map(|(usage, value)| {
        let (name, value) = (Ident::new(usage.name, site), value.computed(usage.name, facade, limit)?);
        Some(quote_spanned!(site=> #name: #value))
    });
    let fields: Vec<TokenStream> = fields.collect();
    (!fields.is_empty())
        .then(|| quote_spanned!(site=> #private::Computed { #(#fields,)* ..#private::Computed::NONE }))
}

/// What operators see of the caller and of `count`, unless both are the defaults.
fn text(limit: &Args) -> Option<TokenStream> {
    let by = limit.caller().map_or_else(|| By::Ip.text(), By::text);
    let count =
        value_of(limit.count.as_ref()).map_or_else(|| Count::All.spelling().name.to_owned(), count_text);
    let is_default = by == By::Ip.text() && count == Count::All.spelling().name;
    (!is_default).then(|| quote_spanned!(Span::mixed_site()=> .with_text(#by, #count)))
}

fn count_text(count: &Responses) -> String {
    match count {
        Responses::Named(count) => count.spelling().name.to_owned(),
        Responses::Closure(when) => code_text(when),
        Responses::Function(when) => format!("with({})", path_text(when)),
    }
}

/// A limit whose policy is at `path`. Spanned there: a value of another type is reported there.
fn shared_policy(facade: Facade<'_>, kind: Kind, path: &ExprPath) -> TokenStream {
    let span = located_at_start(path);
    let private = facade.private(span);
    let constructor = Ident::new(kind.shared(), span);
    quote_spanned! {span=>
        #private::WrittenLimit::#constructor(const {
            // Not called: a constant with a destructor cannot be dropped here.
            let _ = || #private::assert_policy(&#path);
            &#path
        })
    }
}

/// A limit whose policy is in the arguments.
fn own_policy(facade: Facade<'_>, handler: &str, index: usize, limit: &Args) -> TokenStream {
    let site = Span::mixed_site();
    let given_key = value_of(limit.key.as_ref()).map(|(Key::Name(name) | Key::Template(name, _))| name);
    let default_key = default_key(handler, index);
    let private = facade.private(site);
    let key = if let Some(name) = given_key {
        string_literal(name)
    } else {
        quote_spanned! {site=>
            #private::DefaultKey::new(::core::concat!(::core::module_path!(), "::", #default_key)).as_str()
        }
    };
    // Clients do not see the module path.
    let shown = (given_key.is_none() && limit.name.is_none()).then(|| {
        // Nearly every name is a key as it is: what the compiler need not compute.
        if is_name(&default_key) {
            quote_spanned!(site=> .with_public_name(#default_key))
        } else {
            quote_spanned!(site=> .with_public_name(#private::DefaultKey::new(#default_key).as_str()))
        }
    });
    let setters = setters(facade, limit, Of::Policy);
    let only_algorithm =
        limit.kind.only_algorithm().map(|only| variant_setter(facade, "algorithm", "Algorithm", only));
    // rustc reports a wrong number at the whole chain, from its first token to its last.
    let span = constant_span([&limit.max, &limit.sub_windows, &limit.burst]);
    let private = facade.private(span);
    let rule = quote_spanned! {span=>
        #private::Policy::builder(#key) #setters #only_algorithm
    };
    let limit = match computed(facade, limit) {
        None => quote_spanned!(span=> #private::WrittenLimit::new(#rule.build())),
        Some(computed) => quote_spanned!(span=> #private::WrittenLimit::with_computed(#rule, #computed)),
    };
    quote_spanned!(site=> #limit #shown)
}

/// The handler's name. Further limits add their position, because headers list policies by name.
///
/// The name may have any letters: the facade turns it into a valid key.
fn default_key(handler: &str, index: usize) -> String {
    let name: String = handler.split_whitespace().collect();
    if index == 0 { name } else { format!("{name}#{}", index + 1) }
}

pub(super) fn string_literal(name: &Text) -> TokenStream {
    let mut literal = Literal::string(&name.text);
    literal.set_span(located(name.span));
    literal.into_token_stream()
}

/// The values of the arguments, in the order of the table.
fn values(limit: &Args) -> impl Iterator<Item = (&'static Usage, &dyn Value)> {
    macro_rules! of_each {
        ($($(#[doc = $docs:literal])* $field:ident $name:literal: $type:ty, $of:ident, $example:literal, $code:tt $(, $why:literal)?;)*) => {
            [$(value_of(limit.$field.as_ref()).map(|value: &$type| value as &dyn Value)),*]
        };
    }
    ARGUMENTS.iter().zip(with_arguments!(of_each)).filter_map(|(usage, value)| Some((usage, value?)))
}

/// The setters of the builder of a policy, or of a limit.
fn setters(facade: Facade<'_>, limit: &Args, of: Of) -> TokenStream {
    let values = values(limit).filter(|(usage, _)| usage.of == of);
    values.map(|(usage, value)| value.setter(usage.name, facade, limit)).collect()
}

/// The value of an argument.
pub(super) trait Value {
    /// `.name(value)`, or nothing for what has no setter of its own.
    fn setter(&self, _name: &str, _: Facade<'_>, _: &Args) -> TokenStream {
        TokenStream::new()
    }

    /// What computes it for each request.
    fn computed(&self, _name: &str, _: Facade<'_>, _: &Args) -> Option<TokenStream> {
        None
    }
}

impl Value for By {}
impl Value for Key {}
impl Value for ExprPath {}
impl Value for Ident {}

impl Value for RequestFn {
    fn computed(&self, name: &str, facade: Facade<'_>, _: &Args) -> Option<TokenStream> {
        let returned = if name == "plan" { PLAN } else { Returned::Primitive("bool") };
        Some(per_request::value(facade, self, returned))
    }
}

impl Value for Responses {
    fn setter(&self, name: &str, facade: Facade<'_>, limit: &Args) -> TokenStream {
        match self {
            Self::Named(count) => count.setter(name, facade, limit),
            Self::Closure(when) => count_when(facade, when),
            Self::Function(when) => count_when(facade, when),
        }
    }
}

impl Value for Number {
    fn setter(&self, name: &str, _: Facade<'_>, _: &Args) -> TokenStream {
        match self {
            Self::Literal { value, span } => {
                let mut value = Literal::u64_suffixed(*value);
                value.set_span(located(*span));
                call(name, located(*span), &value)
            }
            Self::Constant(constant) => call(name, located_at_start(constant), constant),
            Self::PerRequest(_) => TokenStream::new(),
        }
    }

    fn computed(&self, _: &str, facade: Facade<'_>, _: &Args) -> Option<TokenStream> {
        Some(per_request::value(facade, self.per_request()?, Returned::Primitive("u64")))
    }
}

impl Value for Length {
    fn setter(&self, name: &str, _: Facade<'_>, _: &Args) -> TokenStream {
        let (span, micros) = (located(self.span), Literal::u64_suffixed(self.micros));
        call(name, span, &quote_spanned!(span=> ::core::time::Duration::from_micros(#micros)))
    }
}

impl Value for Text {
    fn setter(&self, name: &str, _: Facade<'_>, _: &Args) -> TokenStream {
        call(name, Span::mixed_site(), &string_literal(self))
    }
}

impl<T: Choice> Value for T {
    fn setter(&self, name: &str, facade: Facade<'_>, _: &Args) -> TokenStream {
        variant_setter(facade, name, T::TYPE, self.spelling().variant)
    }
}

/// `.name(value)`.
pub(super) fn call(name: &str, span: Span, value: &impl ToTokens) -> TokenStream {
    let name = Ident::new(name, span);
    quote_spanned!(span=> .#name(#value))
}

/// `.setter(Type::Variant)`.
fn variant_setter(facade: Facade<'_>, setter: &str, ty: &str, variant: &str) -> TokenStream {
    let site = Span::mixed_site();
    let private = facade.private(site);
    let (ty, variant) = (Ident::new(ty, site), Ident::new(variant, site));
    call(setter, site, &quote_spanned!(site=> #private::#ty::#variant))
}

/// The span of the only const expression among `numbers`. Literals have been checked, so only a const
/// expression can still be wrong. With several of them it is the span of the attribute, and the message names
/// the wrong one.
fn constant_span(numbers: [&Option<Argument<Number>>; 3]) -> Span {
    let mut constants = numbers.into_iter().filter_map(|number| match value_of(number.as_ref())? {
        Number::Constant(constant) => Some(located_at_start(constant)),
        Number::Literal { .. } | Number::PerRequest(_) => None,
    });
    match (constants.next(), constants.next()) {
        (Some(only), None) => only,
        _ => Span::mixed_site(),
    }
}

/// The caller.
fn by(facade: Facade<'_>, by: &By, span: Span) -> TokenStream {
    let private = facade.private(span);
    match by {
        By::Ip => quote_spanned!(span=> #private::By::Ip),
        By::Global => quote_spanned!(span=> #private::By::Global),
        By::Facade(function) => {
            let function = Ident::new(function, span);
            quote_spanned!(span=> #private::By::Now(#private::#function))
        }
        By::Path(parameter) => {
            let name = &parameter.name;
            quote_spanned!(span=> #private::By::Path(#name))
        }
        By::Header(name) => quote_spanned!(span=> #private::By::Header(#name)),
        By::Function(path) => per_request::expand_path(facade, "By", path, CALLER),
        By::Closure(closure) => per_request::expand_closure(facade, "By", closure, CALLER),
        By::Parts(parts) => {
            let parts = parts.iter().map(|part| self::by(facade, part, span));
            quote_spanned!(span=> #private::By::Parts(const { &[#(#parts),*] }))
        }
    }
}

/// Spanned at the user's code: unsuitable code is reported there.
fn count_when(facade: Facade<'_>, when: &impl ToTokens) -> TokenStream {
    let span = located_at_start(when);
    let private = facade.private(span);
    call("count", span, &quote_spanned!(span=> #private::Count::When(#when)))
}
