//! Rules between `lease` and other arguments.

use crate::diagnostics::Diagnostics;
use crate::parse::args::Args;
use crate::parse::choice::Count;
use crate::parse::name::Key;
use crate::parse::number::Units;
use crate::parse::tokens::find_settlements;
use crate::validate::handler::Handler;

/// Records a mistake for each broken rule.
pub(crate) fn check(args: &Args, diagnostics: &mut Diagnostics) {
    let Some(lease) = &args.lease else { return };
    let algorithm = args.algorithm.as_ref().and_then(|argument| argument.value.ok());
    match algorithm.map(|algorithm| algorithm.variant) {
        Some("SlidingWindowLog") => {
            diagnostics.error(
                &lease.keyword,
                "`lease` is not for \"sliding_window_log\", of which every unit counts from its own instant; remove `lease`, or \
                 write `algorithm = \"sliding_window_counter\", sub_windows = 60`",
            );
        }
        Some("TokenBucket") if !counts_every_response(args) => {
            diagnostics.error(
                &lease.keyword,
                "`lease` with \"token_bucket\" needs `count = \"all\"`, because units of a leased bucket cannot be given back; \
                 remove `lease` or `count`, or change the algorithm",
            );
        }
        _ => {}
    }
    if let Some(Ok(Units::PerRequest(_))) = args.max.as_ref().map(|argument| &argument.value) {
        diagnostics.error(
            &lease.keyword,
            "`lease` needs a `max` that is the same for every request of a caller, because held units were charged under it; \
             remove `lease`, or write a constant `max`",
        );
    }
}

/// Reports each limit of a handler that the handler settles although its units cannot be given back. Settlements that are not in
/// view are errors when the program runs.
pub(crate) fn check_settlements(group: &[Args], handler: &Handler, diagnostics: &mut Diagnostics) {
    let leased_buckets: Vec<&str> =
        group.iter().filter(|args| is_leased_bucket(args)).filter_map(name).collect();
    if leased_buckets.is_empty() {
        return;
    }
    for (name, method) in find_settlements(handler.body.clone()) {
        if leased_buckets.contains(&&*name) {
            let message = format!(
                "`{method}` is not for \"{name}\", a \"token_bucket\" with `lease`, because units of a leased bucket cannot be \
                 given back; remove `lease`, or change the algorithm"
            );
            diagnostics.error(method, message);
        }
    }
}

fn is_leased_bucket(args: &Args) -> bool {
    let algorithm = args.algorithm.as_ref().and_then(|argument| argument.value.ok());
    args.lease.is_some() && algorithm.is_some_and(|algorithm| algorithm.variant == "TokenBucket")
}

/// The name of a limit, as far as the attribute gives it.
fn name(args: &Args) -> Option<&str> {
    if let Some(name) = &args.name {
        return name.value.as_ref().ok().map(|name| &*name.text);
    }
    match args.key.as_ref()?.value.as_ref().ok()? {
        Key::Name(name) | Key::Template(name, _) => Some(&name.text),
    }
}

fn counts_every_response(args: &Args) -> bool {
    match &args.count {
        None => true,
        // A mistake in `count` has been recorded.
        Some(argument) => argument.value.as_ref().map_or(true, |count| matches!(count, Count::All)),
    }
}
