//! The user's code in the values of arguments.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::ExprPath;

use crate::parse::algorithm::Algorithm;
use crate::parse::by::By;
use crate::parse::calendar::{Anchor, LimitWindow, Zone};
use crate::parse::choice::{Count, Mode, OnError, OnMissing};
use crate::parse::name::{Key, Name};
use crate::parse::number::{Number, Units};
use crate::parse::request_fn::RequestFn;
use crate::parse::window::Window;

/// A value that may hold code of the user, which the expansion repeats.
pub(super) trait UserCode {
    fn add_code(&self, code: &mut Vec<TokenStream>);
}

/// Values that hold none.
macro_rules! no_code {
    ($($type:ty),*) => {
        $(impl UserCode for $type {
            fn add_code(&self, _: &mut Vec<TokenStream>) {}
        })*
    };
}

no_code!(&'static Algorithm, Ident, Key, LimitWindow, Mode, Name, OnError, OnMissing, Window, Zone);

impl UserCode for Number {
    fn add_code(&self, code: &mut Vec<TokenStream>) {
        if let Self::Constant(tokens) = self {
            code.push(tokens.clone());
        }
    }
}

impl UserCode for Units {
    fn add_code(&self, code: &mut Vec<TokenStream>) {
        match self {
            Self::Fixed(number) => number.add_code(code),
            Self::PerRequest(function) => function.add_code(code),
        }
    }
}

impl UserCode for Anchor {
    fn add_code(&self, code: &mut Vec<TokenStream>) {
        if let Self::PerRequest(function) = self {
            function.add_code(code);
        }
    }
}

impl UserCode for RequestFn {
    fn add_code(&self, code: &mut Vec<TokenStream>) {
        code.push(self.code());
    }
}

impl UserCode for Count {
    fn add_code(&self, code: &mut Vec<TokenStream>) {
        if let Self::Closure(when) | Self::Function(when) = self {
            code.push(when.clone());
        }
    }
}

impl UserCode for ExprPath {
    fn add_code(&self, code: &mut Vec<TokenStream>) {
        code.push(self.to_token_stream());
    }
}

impl UserCode for By {
    fn add_code(&self, code: &mut Vec<TokenStream>) {
        code.extend(self.code());
    }
}
