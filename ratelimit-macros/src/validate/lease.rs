//! Rules between `lease` and other arguments.

use crate::diagnostics::Diagnostics;
use crate::parse::algorithm::Leasing;
use crate::parse::args::Args;
use crate::parse::calendar::Anchor;
use crate::parse::choice::{Count, Responses};
use crate::parse::number::Units;

/// Records a mistake for each broken rule.
pub(crate) fn check(args: &Args, diagnostics: &mut Diagnostics) {
    let Some(lease) = &args.lease else { return };
    if let Some(Ok(algorithm)) = args.algorithm.as_ref().map(|argument| argument.value) {
        let name = algorithm.name;
        match algorithm.leasing {
            Leasing::Never => {
                let message = format!(
                    "`lease` is not for \"{name}\", of which every unit counts from its own instant; remove `lease`, or write \
                     `algorithm = \"sliding_window_counter\", sub_windows = 60`"
                );
                diagnostics.error(&lease.keyword, message);
            }
            Leasing::Evaporating if !counts_every_response(args) => {
                let message = format!(
                    "`lease` with \"{name}\" needs `count = \"all\"`, because its leased units cannot be given back; remove \
                     `lease` or `count`, or change the algorithm"
                );
                diagnostics.error(&lease.keyword, message);
            }
            _ => {}
        }
    }
    if let Some(Ok(Units::PerRequest(_))) = args.max.as_ref().map(|argument| &argument.value) {
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

fn counts_every_response(args: &Args) -> bool {
    match &args.count {
        None => true,
        // A mistake in `count` has been recorded.
        Some(argument) => {
            argument.value.as_ref().map_or(true, |count| matches!(count, Responses::Named(Count::All)))
        }
    }
}
