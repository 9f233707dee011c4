//! Specifications: a handler and its limits, complete and free of mistakes.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::ExprPath;

use crate::bounds::MAX_GROUP;
use crate::diagnostics::{Diagnostics, Reported};
use crate::kind::Kind;
use crate::parse::algorithm::Algorithm;
use crate::parse::args::{Args, Argument};
use crate::parse::by::{By, Parameter, RouteCheck};
use crate::parse::calendar::{Anchor, LimitWindow, Zone};
use crate::parse::choice::{Count, Mode, OnError, OnMissing};
use crate::parse::name::{self, Name};
use crate::parse::number::{Number, Units};
use crate::parse::request_fn::RequestFn;
use crate::parse::route::Route;
use crate::parse::window::Window;
use crate::suggest::nearest;
use crate::validate::counts;
use crate::validate::handler::Handler;

/// A handler and its limits.
pub(crate) struct HandlerSpec {
    /// The value of `crate = ..`.
    pub(crate) facade: Option<ExprPath>,
    pub(crate) handler: Handler,
    pub(crate) limits: Vec<LimitSpec>,
    /// The path of a stacked attribute of the other kind. Without a use of it, the compiler would report its import.
    pub(crate) other_kind: Option<syn::Path>,
}

/// One limit.
pub(crate) struct LimitSpec {
    pub(crate) kind: Kind,
    pub(crate) policy: PolicySource,
    pub(crate) by: By,
    pub(crate) on_missing: OnMissing,
    pub(crate) cost: Option<Units>,
    pub(crate) count: Count,
    pub(crate) skip: Option<RequestFn>,
    pub(crate) plan: Option<RequestFn>,
}

/// The place where the policy of a limit is written.
pub(crate) enum PolicySource {
    /// In the arguments.
    Arguments(Box<PolicySpec>),
    /// In a `static` or `const` at this path.
    Path(ExprPath),
}

/// A policy in the arguments.
pub(crate) struct PolicySpec {
    pub(crate) key: PolicyKey,
    pub(crate) max: Option<Units>,
    pub(crate) window: Option<LimitWindow>,
    pub(crate) zone: Option<Zone>,
    pub(crate) anchor: Option<Anchor>,
    pub(crate) algorithm: Option<&'static Algorithm>,
    pub(crate) sub_windows: Option<Number>,
    pub(crate) burst: Option<Number>,
    pub(crate) name: Option<Name>,
    pub(crate) on_error: OnError,
    pub(crate) block: Option<Window>,
    pub(crate) mode: Mode,
    pub(crate) lease: Option<Window>,
}

impl LimitSpec {
    /// The code that chooses `max` per request.
    pub(crate) fn dynamic_max(&self) -> Option<&RequestFn> {
        match &self.policy {
            PolicySource::Arguments(policy) => policy.dynamic_max(),
            PolicySource::Path(_) => None,
        }
    }

    /// The code that chooses `anchor` per request, with the policy in the arguments.
    pub(crate) fn dynamic_anchor(&self) -> Option<(&PolicySpec, &RequestFn)> {
        match &self.policy {
            PolicySource::Arguments(policy) => Some((policy, policy.dynamic_anchor()?)),
            PolicySource::Path(_) => None,
        }
    }

    /// The code that chooses `cost` per request.
    pub(crate) fn dynamic_cost(&self) -> Option<&RequestFn> {
        self.cost.as_ref().and_then(Units::per_request)
    }
}

impl PolicySpec {
    /// The code that chooses `max` per request.
    pub(crate) fn dynamic_max(&self) -> Option<&RequestFn> {
        self.max.as_ref().and_then(Units::per_request)
    }

    /// The code that chooses `anchor` per request.
    pub(crate) fn dynamic_anchor(&self) -> Option<&RequestFn> {
        self.anchor.as_ref().and_then(Anchor::per_request)
    }
}

/// The key of the policy.
pub(crate) enum PolicyKey {
    Given(Name),
    /// The module path is prepended at compile time.
    Default(String),
}

/// Joins the arguments of all attributes with the handler.
pub(crate) fn validate(
    group: Vec<Args>,
    handler: Result<Handler, Reported>,
    routes: &[Route],
    inherited_facade: Option<&ExprPath>,
    diagnostics: &mut Diagnostics,
) -> Result<HandlerSpec, Reported> {
    if let Ok(handler) = &handler
        && group.len() > MAX_GROUP
    {
        let found = group.len();
        let message = format!("a handler can have at most {MAX_GROUP} limits, found {found}; remove some");
        diagnostics.error(&handler.signature.ident, message);
    }
    counts::check(&group, diagnostics);
    let mut own_facade: Option<Argument<ExprPath>> = None;
    let mut limits = Vec::new();
    for (index, mut args) in group.into_iter().enumerate() {
        if let Some(other) = args.facade.take() {
            check_facade(own_facade.as_ref(), &other, diagnostics);
            own_facade = own_facade.or(Some(other));
        }
        limits.push(limit(args, index, handler.as_ref().ok(), routes, diagnostics));
    }
    Ok(HandlerSpec {
        facade: match own_facade {
            Some(own) => Some(own.value?),
            None => inherited_facade.cloned(),
        },
        handler: handler?,
        limits: limits.into_iter().collect::<Result<_, _>>()?,
        other_kind: None,
    })
}

/// Requires one facade per handler, because all its attributes are expanded as one.
fn check_facade(
    first: Option<&Argument<ExprPath>>,
    other: &Argument<ExprPath>,
    diagnostics: &mut Diagnostics,
) {
    if let (Some(Ok(first)), Ok(other)) = (first.map(|first| &first.value), &other.value)
        && first.to_token_stream().to_string() != other.to_token_stream().to_string()
    {
        diagnostics.error(other, "the attributes on one handler need the same `crate`; give it once");
    }
}

/// The name of the handler's own function, if one of the attributes gives it.
pub(crate) fn inner_name(group: &[Args], beside: bool, diagnostics: &mut Diagnostics) -> Option<Ident> {
    let mut given = group.iter().filter_map(|args| args.inner.as_ref());
    let first = given.next()?;
    if let Some(other) = given.next() {
        diagnostics.error(&other.keyword, "a handler has one function; give `inner` once");
    }
    let inner = first.value.as_ref().ok()?;
    if !beside {
        diagnostics.error(
            &first.keyword,
            format!(
                "`inner` puts the function beside its handler, which only works from above the route attribute; \
                 write #[{}(..)] above `#[get(..)]`, or on the impl block",
                diagnostics.kind.name()
            ),
        );
    }
    Some(inner.clone())
}

fn limit(
    args: Args,
    index: usize,
    handler: Option<&Handler>,
    routes: &[Route],
    diagnostics: &mut Diagnostics,
) -> Result<LimitSpec, Reported> {
    let (key, by) = match value_of(args.key)? {
        None => (default_key(index, handler), None),
        Some(name::Key::Name(key)) => (PolicyKey::Given(key), None),
        Some(name::Key::Template(key, by)) => (PolicyKey::Given(key), Some(by)),
    };
    let by = value_of(args.by)?.or(by).unwrap_or(By::Ip);
    for parameter in by.parameters() {
        check_parameter(parameter, routes, diagnostics);
    }
    let policy = match value_of(args.policy)? {
        Some(path) => PolicySource::Path(path),
        None => PolicySource::Arguments(Box::new(PolicySpec {
            key,
            max: value_of(args.max)?,
            window: value_of(args.window)?,
            zone: value_of(args.zone)?,
            anchor: value_of(args.anchor)?,
            algorithm: value_of(args.algorithm)?,
            sub_windows: value_of(args.sub_windows)?,
            burst: value_of(args.burst)?,
            name: value_of(args.name)?,
            on_error: value_of(args.on_error)?.unwrap_or(OnError::Local),
            block: value_of(args.block)?,
            mode: value_of(args.mode)?.unwrap_or(Mode::Enforce),
            lease: value_of(args.lease)?,
        })),
    };
    Ok(LimitSpec {
        kind: args.kind,
        policy,
        by,
        on_missing: value_of(args.on_missing)?.unwrap_or(OnMissing::Reject),
        cost: value_of(args.cost)?,
        count: value_of(args.count)?.unwrap_or(Count::All),
        skip: value_of(args.skip)?,
        plan: value_of(args.plan)?,
    })
}

fn value_of<T>(argument: Option<Argument<T>>) -> Result<Option<T>, Reported> {
    argument.map(|argument| argument.value).transpose()
}

/// Checks a path parameter against the routes in view.
fn check_parameter(parameter: &Parameter, routes: &[Route], diagnostics: &mut Diagnostics) {
    let Parameter { name, span, route_check } = parameter;
    for route in routes {
        if route.parameters.iter().any(|own| own == name) {
            continue;
        }
        match route_check {
            RouteCheck::Required => {
                let scope = format!("for a parameter of an enclosing scope, write `{{path:{name}}}`");
                route.report_missing(name, *span, &scope, diagnostics);
            }
            RouteCheck::Suggest if nearest(name, route.parameters.iter().map(String::as_str)).is_some() => {
                let scope =
                    format!("for a parameter of an enclosing scope, write `key = \"{{path:{name}}}\"`");
                route.report_missing(name, *span, &scope, diagnostics);
            }
            RouteCheck::Suggest | RouteCheck::Off => {}
        }
    }
}

/// The handler's name. Further limits add their position, because headers list policies by name.
///
/// The name may have any letters: the facade turns it into a valid key.
fn default_key(index: usize, handler: Option<&Handler>) -> PolicyKey {
    let name: String = handler.map(Handler::path).unwrap_or_default();
    let name: String = name.split_whitespace().collect();
    PolicyKey::Default(if index == 0 { name } else { format!("{name}#{}", index + 1) })
}
