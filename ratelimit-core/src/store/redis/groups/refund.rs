//! The command of a refund.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::check::Check;
use crate::reservation::Charge;
use crate::store::redis::command::{Command, GuardedCommand};
use crate::store::redis::denial_cache::DenialCache;
use crate::store::redis::protocol::{Encoder, RefundArgs};
use crate::store::redis::script;

/// The command that refunds these charges of one caller. When it has ended, the caller's denials are void.
pub(super) fn refund_command(
    charges: &[Charge<'_>],
    encoder: &Encoder,
    denials: &Arc<DenialCache>,
) -> GuardedCommand {
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
