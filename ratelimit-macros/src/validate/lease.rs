//! Rules between `lease` and other arguments.

use crate::diagnostics::Diagnostics;
use crate::parse::args::Args;
use crate::parse::calendar::Anchor;
use crate::parse::number::Number;

/// Records a mistake for each broken rule.
pub(crate) fn check(args: &Args, diagnostics: &mut Diagnostics) {
    let Some(lease) = &args.lease else { return };
    if let Some(Ok(algorithm)) = args.algorithm.as_ref().map(|argument| argument.value)
        && let Some(reason) = algorithm.no_lease
    {
        let message = format!(
            "`lease` is not for \"{}\", {reason}; remove `lease`, or write \
             `algorithm = \"sliding_window_counter\", sub_windows = 60`",
            algorithm.name
        );
        diagnostics.error(&lease.keyword, message);
    }
    if let Some(Ok(Number::PerRequest(_))) = args.max.as_ref().map(|argument| &argument.value) {
        diagnostics.error(
            &lease.keyword,
            "`lease` needs a `max` that is the same for every request of a caller, because held units were charged under it; \
             remove `lease`, or write a constant `max`",
        );
    }
    if let Some(Ok(Anchor::PerRequest(_))) = args.anchor.as_ref().map(|argument| &argument.value) {
        diagnostics.error(
            &lease.keyword,
            "`lease` needs an `anchor` that is the same for every request of a caller, because held units end with the window; \
             remove `lease`, or write a constant `anchor`",
        );
    }
}
