//! Rules between `lease` and other arguments.

use crate::diagnostics::Diagnostics;
use crate::parse::args::{Args, value_of};
use crate::parse::calendar::Anchor;
use crate::parse::number::Number;

/// Records a mistake for each broken rule.
pub(crate) fn check(args: &Args, diagnostics: &mut Diagnostics) {
    let Some(lease) = &args.lease else { return };
    if let Some(algorithm) = value_of(args.algorithm.as_ref())
        && let Some(reason) = algorithm.no_lease
    {
        let message = format!(
            "`lease` is not for \"{}\", {reason}; remove `lease`, or write \
             `algorithm = \"sliding_window_counter\", sub_windows = 60`",
            algorithm.name
        );
        diagnostics.error(&lease.keyword, message);
    }
    if value_of(args.max.as_ref()).and_then(Number::per_request).is_some() {
        diagnostics.error(
            &lease.keyword,
            "`lease` needs a `max` that is the same for every request of a caller, because held units were charged under it; \
             remove `lease`, or write a constant `max`",
        );
    }
    if value_of(args.anchor.as_ref()).and_then(Anchor::per_request).is_some() {
        diagnostics.error(
            &lease.keyword,
            "`lease` needs an `anchor` that is the same for every request of a caller, because held units end with the window; \
             remove `lease`, or write a constant `anchor`",
        );
    }
}
