//! Every limit that is written down in the program, to be printed at start, served as a table or asserted in a test.

use std::fmt;
use std::time::Duration;

use ratelimit_core::{Algorithm, Policy};

use super::limit::HandlerLimit;

/// The limits of one handler, as the attribute hands them in.
#[derive(Debug)]
pub struct Declaration {
    /// The handler's name; with the type's for an associated function.
    pub handler: &'static str,
    /// The module that it is in.
    pub module: &'static str,
    /// Its source file.
    pub file: &'static str,
    /// The line of its name.
    pub line: u32,
    /// Its limits.
    pub limits: &'static [HandlerLimit],
    /// What is only in the source of each limit.
    pub texts: &'static [SourceText],
}

/// What is only in the source of a limit.
#[derive(Debug)]
pub struct SourceText {
    /// Who is limited.
    pub by: &'static str,
    /// Which answers count.
    pub count: &'static str,
    /// Whether the cost is chosen for each request.
    pub has_dynamic_cost: bool,
    /// Whether some requests are let off.
    pub skips: bool,
}

inventory::collect!(Declaration);

/// One `#[rate_limit]` of the program.
///
/// `Display` writes it on one line.
#[derive(Clone, Copy, Debug)]
pub struct DeclaredLimit {
    declaration: &'static Declaration,
    limit: &'static HandlerLimit,
    text: &'static SourceText,
}

impl DeclaredLimit {
    /// The handler's name, such as `user`, or `Api::list` for an associated function.
    pub const fn handler(&self) -> &'static str {
        self.declaration.handler
    }

    /// The path of the module that the handler is in.
    pub const fn module(&self) -> &'static str {
        self.declaration.module
    }

    /// The handler's source file, as the compiler was given it.
    pub const fn file(&self) -> &'static str {
        self.declaration.file
    }

    /// The line of the handler's name in its source file.
    pub const fn line(&self) -> u32 {
        self.declaration.line
    }

    /// The name under which calls are counted; limits with the same key, algorithm and window share their counts.
    pub fn key(&self) -> &'static str {
        self.policy().key()
    }

    /// What the limit is called in metrics, and in header fields and bodies unless it is the handler's path: these then have
    /// the function's name alone.
    pub fn name(&self) -> &'static str {
        self.policy().name()
    }

    /// Units per window; `None` when that is chosen for each request.
    pub const fn max(&self) -> Option<u64> {
        if self.limit.has_dynamic_max() { None } else { Some(self.limit.policy().max()) }
    }

    /// The window.
    pub const fn window(&self) -> Duration {
        self.limit.policy().window()
    }

    /// How units are counted.
    pub const fn algorithm(&self) -> Algorithm {
        self.limit.policy().algorithm()
    }

    /// Units that a request costs; `None` when that is chosen for each request.
    pub const fn cost(&self) -> Option<u64> {
        if self.text.has_dynamic_cost { None } else { Some(self.limit.fixed_cost()) }
    }

    /// Who is limited, as it is written: `ip`, `path("id")`, the placeholders of a template or the code of a closure.
    pub const fn by(&self) -> &'static str {
        self.text.by
    }

    /// Which answers count, as it is written: `all`, `failures`, `successes` or the code of a closure.
    pub const fn count(&self) -> &'static str {
        self.text.count
    }

    /// Whether some requests are let off with `skip`.
    pub const fn skips(&self) -> bool {
        self.text.skips
    }

    const fn policy(&self) -> &'static Policy {
        self.limit.policy()
    }
}

impl fmt::Display for DeclaredLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { declaration, text, .. } = self;
        write!(f, "{}::{}: ", declaration.module, declaration.handler)?;
        match self.max() {
            Some(max) => write!(f, "{max}")?,
            None => f.write_str("chosen")?,
        }
        write!(f, " per {:?} by {}, {:?}, key {}", self.window(), text.by, self.algorithm(), self.key())?;
        match self.cost() {
            Some(1) => {}
            Some(cost) => write!(f, ", cost {cost}")?,
            None => f.write_str(", cost chosen")?,
        }
        if text.count != "all" {
            write!(f, ", counts {}", text.count)?;
        }
        if text.skips {
            f.write_str(", with exceptions")?;
        }
        write!(f, " ({}:{})", declaration.file, declaration.line)
    }
}

/// Every `#[rate_limit]` that is linked into the program, in the order of modules and lines.
///
/// Handlers that are never mounted are listed as well, and a generic handler once. Nothing has to be called or
/// registered for it: the list is made when the program is linked.
///
/// # Examples
///
/// A line for each at start, and a test that nothing was forgotten:
///
/// ```
/// use actix_web::get;
/// use ratelimit_actix::{declared_limits, rate_limit};
///
/// #[rate_limit(max = 10, window = "60s", key = "user-api")]
/// #[get("/user/{user_id}")]
/// async fn user() -> &'static str {
///     "user"
/// }
///
/// for limit in declared_limits() {
///     println!("{limit}");
/// }
/// let found = declared_limits().into_iter().find(|limit| limit.handler() == "user").unwrap();
/// assert_eq!((found.key(), found.max(), found.by()), ("user-api", Some(10), "ip"));
/// ```
pub fn declared_limits() -> Vec<DeclaredLimit> {
    let mut limits: Vec<DeclaredLimit> = inventory::iter::<Declaration>()
        .flat_map(|declaration| {
            let each = declaration.limits.iter().zip(declaration.texts);
            each.map(move |(limit, text)| DeclaredLimit { declaration, limit, text })
        })
        .collect();
    limits.sort_by_key(|limit| (limit.module(), limit.file(), limit.line(), limit.handler()));
    limits
}
