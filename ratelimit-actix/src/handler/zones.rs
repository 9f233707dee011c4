//! The time zones of all attributes, which are looked up when a limiter is built.

use ratelimit_core::__private_0_1::DeclaredZones;
use ratelimit_core::policy::Calendar;

use super::registry::declared_limits;

inventory::submit! { DeclaredZones { check } }

fn check() -> Result<(), String> {
    for limit in declared_limits() {
        if let Some(Err(error)) = limit.policy().calendar().map(Calendar::check) {
            let (module, handler) = (limit.module(), limit.handler());
            return Err(format!(
                "limit of `{module}::{handler}` ({}:{}): {error}",
                limit.file(),
                limit.line()
            ));
        }
    }
    Ok(())
}
