//! Writes out windows of a calendar, and the days on which they begin.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;

use super::limits::{Value, call, string_literal};
use crate::diagnostics::located;
use crate::expand::paths::Facade;
use crate::expand::per_request::{self, Returned};
use crate::parse::args::{Args, value_of};
use crate::parse::values::calendar::{Anchor, AnchorDay, CalendarUnit, WEEKDAYS, Window};

impl Value for Anchor {
    fn computed(&self, _: &str, facade: Facade<'_>, limit: &Args) -> Option<TokenStream> {
        Some(per_request::value(facade, self.per_request()?, Returned::Day(limit.calendar_unit()?)))
    }
}

impl Value for Window {
    fn setter(&self, name: &str, facade: Facade<'_>, limit: &Args) -> TokenStream {
        match self {
            Self::Length(window) => window.setter(name, facade, limit),
            Self::Calendar(unit, span) => calendar(facade, *unit, *span, limit),
        }
    }
}

/// `.calendar(Calendar::month(15).in_zone("Europe/Berlin"))`; from the first day if that is chosen per
/// request.
fn calendar(facade: Facade<'_>, unit: CalendarUnit, span: Span, limit: &Args) -> TokenStream {
    let span = located(span);
    let private = facade.private(span);
    let days = match (unit, value_of(limit.anchor.as_ref()).and_then(Anchor::fixed)) {
        (CalendarUnit::Day, _) => quote_spanned!(span=> day()),
        (CalendarUnit::Week, day) => {
            let index = if let Some(AnchorDay::Week(index)) = day { index } else { 0 };
            let day = Ident::new(WEEKDAYS[index].1, span);
            quote_spanned!(span=> week(#private::Weekday::#day))
        }
        (CalendarUnit::Month, day) => {
            let day = if let Some(AnchorDay::Month(day)) = day { day } else { 1 };
            quote_spanned!(span=> month(#day))
        }
        (CalendarUnit::Year, day) => {
            let (month, day) =
                if let Some(AnchorDay::Year(month, day)) = day { (month, day) } else { (1, 1) };
            quote_spanned!(span=> year(#month, #day))
        }
    };
    let zone = value_of(limit.zone.as_ref()).map(|zone| {
        let name = string_literal(zone);
        quote_spanned!(span=> .in_zone(#name))
    });
    let moves = value_of(limit.anchor.as_ref()).and_then(Anchor::per_request);
    let moves = moves.map(|_| quote_spanned!(span=> .clamped()));
    call("calendar", span, &quote_spanned!(span=> #private::Calendar::#days #zone #moves))
}
