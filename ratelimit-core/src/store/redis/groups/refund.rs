//! The command of a refund.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::check::Check;
use crate::reservation::Charge;
use crate::store::redis::command::{Command, GuardedCommand, Keys, ScriptCall};
use crate::store::redis::denial_cache::DenialCache;
use crate::store::redis::protocol::{Encoder, RefundArgs};
use crate::store::redis::script;

/// The command that refunds these charges of one caller. When it has ended, the caller's denials are void.
pub(super) fn refund_command(
    charges: &[Charge<'_>],
    encoder: &Encoder,
    denials: &Arc<DenialCache>,
) -> GuardedCommand {
    let key_format = &encoder.key_format;
    let mut keys = Keys::default();
    let mut arguments = RefundArgs::new((encoder.now)());
    for charge in charges {
        keys.push(key_format.key(&charge.check()));
        arguments.push(charge);
    }
    let script = script::refund(charges.iter().map(|charge| charge.check().policy().algorithm()));
    let checks: SmallVec<[Check<'_>; 2]> = charges.iter().map(Charge::check).collect();
    let call = ScriptCall::new(script, keys, smallvec![arguments.into_bytes()]);
    GuardedCommand { command: Command::Run(call), guard: Box::new(denials.invalidate_on_drop(&checks)) }
}
