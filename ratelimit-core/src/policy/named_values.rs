//! Settings whose values have names: the list of all values, how their names are read and written.

/// Defines for an enum `ALL`, `as_str`, `Display` and `FromStr`, from the name of each variant. A variant
/// that is missing or out of order fails to compile.
macro_rules! named_values {
    ($type:ident, $setting:literal: $($variant:ident = $name:literal),+ $(,)?) => {
        $crate::policy::named_values::named_values!(
            $type, $setting, "All values, in the order of their declaration.": $($variant = $name),+; apart:
        );
    };
    ($type:ident, $setting:literal, $all:literal: $($variant:ident = $name:literal),+; apart: $($apart:ident = $apart_name:literal),*) => {
        impl $type {
            #[doc = $all]
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// `ALL`, and behind it the values that stand apart from them.
            pub(crate) const EVERY: &'static [Self] = &[$(Self::$variant,)+ $(Self::$apart),*];

            #[doc = concat!("Name of the value, as `#[rate_limit(", $setting, " = \"…\")]` and configuration spell it.")]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    $(Self::$apart => $apart_name),*
                }
            }
        }

        const _: () = {
            let mut i = 0;
            while i < $type::EVERY.len() {
                assert!($type::EVERY[i] as usize == i, "the values stand in the order of their declaration");
                i += 1;
            }
        };

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::policy::UnknownValueError;

            /// Reads the name that [`as_str`](Self::as_str) has.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let found = Self::EVERY.iter().find(|value| value.as_str() == text).copied();
                let names = || Self::EVERY.iter().map(|value| value.as_str()).collect();
                found.ok_or_else(|| Self::Err::new($setting, text, names()))
            }
        }
    };
}

pub(super) use named_values;

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Display};
    use std::str::FromStr;

    use crate::policy::{Algorithm, Mode, OnError, UnknownValueError};

    /// Every name is that of its variant in snake case, and is read back.
    fn assert_named<T>(all: &[T])
    where
        T: Copy + Debug + Display + PartialEq + FromStr<Err = UnknownValueError>,
    {
        for (i, value) in all.iter().enumerate() {
            let mut name = String::new();
            for letter in format!("{value:?}").chars() {
                if letter.is_uppercase() && !name.is_empty() {
                    name.push('_');
                }
                name.extend(letter.to_lowercase());
            }
            assert_eq!((value.to_string(), name.parse()), (name.clone(), Ok(*value)));
            assert!(!all[..i].contains(value));
        }
    }

    #[test]
    fn every_value_is_listed_once_and_named_like_its_variant() {
        assert_named(Algorithm::EVERY);
        assert_named(Mode::ALL);
        assert_named(OnError::ALL);
        assert_eq!((Mode::default(), OnError::default()), (Mode::Enforce, OnError::Local));
    }

    #[test]
    fn a_misspelled_name_is_corrected() {
        let error = "TokenBucket".parse::<Algorithm>().unwrap_err();
        assert_eq!((error.setting(), error.suggestion()), ("algorithm", Some("token_bucket")));
        let names: Vec<String> =
            Algorithm::EVERY.iter().map(|algorithm| format!("\"{algorithm}\"")).collect();
        assert_eq!(
            error.to_string(),
            format!(
                "unknown value \"TokenBucket\" for `algorithm`: expected one of {}; did you mean \"token_bucket\"?",
                names.join(", ")
            )
        );
        for none in ["", "leaky"] {
            assert_eq!(none.parse::<Algorithm>().unwrap_err().suggestion(), None);
        }
        let error = "Shadow ".parse::<Mode>().unwrap_err();
        assert_eq!((error.setting(), error.suggestion()), ("mode", Some("shadow")));
        assert_eq!("dry_run".parse::<Mode>().unwrap_err().expected(), ["enforce", "shadow"]);
        let error = "Deny ".parse::<OnError>().unwrap_err();
        assert_eq!((error.setting(), error.suggestion()), ("on_error", Some("deny")));
        assert_eq!("closed".parse::<OnError>().unwrap_err().expected(), ["local", "deny", "allow"]);
    }
}
