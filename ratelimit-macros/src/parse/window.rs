//! The values of `window`, `block` and `lease`.

pub(crate) mod grammar;

use proc_macro2::Span;
use syn::{Expr, Lit};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::bounds::MAX_LEASE_MICROS;
use crate::parse::expr::{expect_str, literal};
use crate::parse::tokens::code_text;
use crate::parse::usage::Usage;
use crate::parse::window::grammar::{EXPECTED, Fault};

/// The length of a window, of a block or of a lease.
pub(crate) struct Length {
    pub(crate) micros: u64,
    pub(crate) span: Span,
}

/// An argument that takes a time, such as `"60s"`.
pub(crate) struct Time<'a> {
    usage: &'a Usage,
    /// The unit of a number without one.
    unit: &'a str,
    /// The longest time in microseconds, if it is shorter than that of a window, and as text.
    longest: Option<(u64, &'a str)>,
}

impl<'a> Time<'a> {
    /// A window or a block.
    pub(crate) const fn window(usage: &'a Usage) -> Self {
        Self { usage, unit: "s", longest: None }
    }

    pub(crate) const fn lease(usage: &'a Usage) -> Self {
        Self { usage, unit: "ms", longest: Some((MAX_LEASE_MICROS, "10 s")) }
    }

    /// Reads the value.
    pub(crate) fn read(&self, value: Expr, diagnostics: &mut Diagnostics) -> Result<Length, Reported> {
        let Usage { name, example, .. } = self.usage;
        let fault = match (literal(&value), expect_str(self.usage, &value)) {
            (Some(Lit::Int(integer)), _) => {
                let unit = if integer.suffix().is_empty() { self.unit } else { integer.suffix() };
                let meant = format!("{}{unit}", integer.base10_digits());
                let meant =
                    if self.takes(&meant) { format!("{name} = \"{meant}\"") } else { (*example).to_owned() };
                format!("`{name}` takes a string, not an integer; did you mean `{meant}`?")
            }
            (_, Ok(text)) => match (grammar::parse(&text.value()), self.longest) {
                (Ok(micros), Some((longest, words))) if micros > longest => format!(
                    "`{name}` must be at most {words}, found {:?}; write for example `{example}`",
                    text.value()
                ),
                (Ok(micros), _) => return Ok(Length { micros, span: text.span() }),
                (Err(fault), _) => self.message(&fault),
            },
            (_, Err(fault)) => fault + &self.elsewhere(&value),
        };
        Err(diagnostics.error(value, fault))
    }

    /// What works for a time that is no literal. A lease is for literals only.
    fn elsewhere(&self, value: &Expr) -> String {
        let (name, found) = (self.usage.name, code_text(value));
        match value {
            _ if self.longest.is_some() => String::new(),
            Expr::Path(_) => {
                "; for a const write a policy in a `static`, and name it: `policy = SEARCH`".to_owned()
            }
            Expr::Field(_) | Expr::MethodCall(_) => {
                format!("; overrides replace it when the program starts: `Settings::new().{name}({found})`")
            }
            _ => String::new(),
        }
    }

    /// Whether a text is a time that the argument takes.
    fn takes(&self, text: &str) -> bool {
        let longest = self.longest.map_or(u64::MAX, |(longest, _)| longest);
        grammar::parse(text).is_ok_and(|micros| micros <= longest)
    }

    /// The fault, and the argument that was probably meant.
    pub(crate) fn message(&self, Fault { text, meant }: &Fault) -> String {
        let Usage { name, example, .. } = self.usage;
        // The grammar is that of a window, and begins its messages so.
        let text =
            text.strip_prefix("`window`").map_or_else(|| text.clone(), |rest| format!("`{name}`{rest}"));
        match meant {
            Some(meant) if self.takes(meant) => format!("{text}; did you mean `{name} = \"{meant}\"`?"),
            _ => format!("{text}: {EXPECTED}, such as `{example}`"),
        }
    }
}

/// The arguments for a rate in the notation of other rate limiters: `10/minute`, `10 per minute`.
pub(crate) fn arguments_of_rate(text: &str) -> Option<String> {
    let (max, window) = text.split_once('/').or_else(|| text.split_once(" per "))?;
    let (max, window) = (max.trim().parse::<u64>().ok()?, window.trim());
    let window = match grammar::parse(window) {
        Ok(_) => window.to_owned(),
        Err(fault) => fault.meant?,
    };
    Some(format!("max = {max}, window = \"{window}\""))
}
