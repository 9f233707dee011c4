//! The command of a refund.

use smallvec::SmallVec;

use crate::check::Check;
use crate::reservation::Charge;
use crate::store::redis::command::{Command, GuardedCommand};
use crate::store::redis::protocol::RefundArgs;
use crate::store::redis::script;
use crate::store::redis::shared::Shared;

/// The command that refunds these charges of one caller. When it has ended, the caller's denials are void.
pub(super) fn refund_command(charges: &[Charge<'_>], shared: &Shared) -> GuardedCommand {
    let Shared { encoder, denials, .. } = shared;
    let mut arguments = RefundArgs::new((encoder.now)());
    for charge in charges {
        arguments.push(charge);
    }
    let script = script::refund(charges.iter().map(|charge| charge.check().policy().algorithm()));
    let checks: SmallVec<[Check<'_>; 2]> = charges.iter().map(Charge::check).collect();
    let keys: SmallVec<[_; 2]> = checks.iter().map(|check| encoder.key_format.key(check)).collect();
    let command = Command::run(script, &keys, &[arguments.into_bytes()]);
    GuardedCommand { command, guard: Box::new(denials.invalidate_on_drop(&checks)) }
}
