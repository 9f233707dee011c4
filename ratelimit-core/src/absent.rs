//! Twins of what a feature brings, for builds without it: the same signatures, and nothing behind them.

/// Defines functions that do nothing and return the default, a `struct` with such methods, or an `enum` without a value, so that the
/// compiler removes the code about it.
#[allow(unused_macros, reason = "with all features nothing is absent")]
macro_rules! absent {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($method:tt)* }) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        $vis struct $name {}

        #[allow(clippy::unused_self, reason = "as with the feature")]
        impl $name {
            $crate::absent::absent! { $($method)* }
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$of_method:meta])* $method_vis:vis fn $method:ident(&$self:ident $($arg:tt)*) $(-> $result:ty)?;)*
    }) => {
        $(#[$meta])*
        $vis enum $name {}

        #[allow(clippy::trivially_copy_pass_by_ref, reason = "as with the feature")]
        impl $name {
            $($(#[$of_method])* $method_vis const fn $method(&$self $($arg)*) $(-> $result)? {
                match *$self {}
            })*
        }
    };
    ($($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:tt)*) $(-> $result:ty)?;)*) => {
        $(
            $(#[$meta])*
            #[inline]
            $vis fn $name($($arg)*) $(-> $result)? {
                Default::default()
            }
        )*
    };
}

#[allow(unused_imports, reason = "with all features nothing is absent")]
pub(crate) use absent;
