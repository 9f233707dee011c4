//! Time zones by their names.

use std::collections::BTreeSet;

use jiff::tz::{TimeZone, db};
use parking_lot::Mutex;

use crate::policy::suggest::nearest;

/// There is no time zone of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone {found:?}{}; expected an IANA name such as \"Europe/Berlin\"", hint(.meant.as_deref()))]
pub struct UnknownZoneError {
    found: String,
    meant: Option<String>,
}

impl UnknownZoneError {
    /// Name that was probably meant.
    pub fn suggestion(&self) -> Option<&str> {
        self.meant.as_deref()
    }
}

fn hint(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| format!(", did you mean {meant:?}?"))
}

/// The zone of a name.
pub(super) fn find(name: &str) -> Result<TimeZone, UnknownZoneError> {
    match TimeZone::get(name) {
        // Names are found in any case of letters, but one spelling is enough. `Etc/Unknown` would be UTC in silence.
        Ok(zone) if !zone.is_unknown() && zone.iana_name() == Some(name) => Ok(zone),
        _ => Err(UnknownZoneError { found: name.to_owned(), meant: meant(name) }),
    }
}

fn meant(name: &str) -> Option<String> {
    let names: Vec<String> = db().available().map(|name| name.as_str().to_owned()).collect();
    let lower: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    // The name of a city without its continent is a likely mistake.
    let ending = format!("/{}", name.to_lowercase().replace(' ', "_"));
    let same = lower.iter().position(|other| *other == name.to_lowercase());
    let city = || lower.iter().position(|other| other.ends_with(&ending));
    let index = same.or_else(city).or_else(|| {
        let meant = nearest(name, lower.iter().map(String::as_str))?;
        lower.iter().position(|name| name == meant)
    })?;
    Some(names[index].clone())
}

/// The name of a known zone, for the life of the program. There are some hundred.
pub(super) fn interned(name: &str) -> Result<&'static str, UnknownZoneError> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    find(name)?;
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return Ok(known);
    }
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(name);
    Ok(name)
}

/// A crate that declares limits, whose zones are looked up when a limiter is built.
#[derive(Debug)]
pub struct DeclaredZones {
    /// The first mistake, with its place in the source.
    pub check: fn() -> Result<(), String>,
}

inventory::collect!(DeclaredZones);

impl DeclaredZones {
    /// Looks up the zones of all declared limits.
    ///
    /// # Panics
    ///
    /// If there is no such zone.
    pub(crate) fn check_all() {
        for crate_ in inventory::iter::<Self> {
            if let Err(error) = (crate_.check)() {
                panic!("{error}");
            }
        }
    }
}
