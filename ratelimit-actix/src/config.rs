//! The configuration of limits: validated once, read for every request.

mod error;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use actix_web::http::Method;
use actix_web::http::header::{HeaderName, RETRY_AFTER};
use actix_web::{HttpRequest, web};

pub use self::error::RateLimitConfigError;
use crate::address::{
    FORWARDED, ForwardedHeader, Ipv6Prefix, NetworkError, NetworkList, Networks, X_FORWARDED_FOR,
};
use crate::response::{
    BodyStyle, CustomBody, HeaderStyle, Rejection, RejectionInfo, StyleSettings, field_names,
};

type ErrorHandler = dyn Fn(Rejection, &HttpRequest) -> actix_web::Error + Send + Sync;

/// Configuration for limits in an app, a scope or a resource: which proxies are trusted, which clients are
/// exempt, which header fields are sent, and what the body of a rejection is.
///
/// Register it with `app_data`, like Actix's own `JsonConfig`. The nearest one applies, as a whole. The
/// defaults are: no trusted proxies, no exempt clients, IPv6 by /64, the legacy fields, JSON bodies. Cloning
/// is cheap.
///
/// # Examples
///
/// ```
/// use actix_web::App;
/// use ratelimit_actix::{BodyStyle, ForwardedHeader, HeaderStyle, RateLimitConfig};
///
/// # fn main() -> Result<(), ratelimit_actix::RateLimitConfigError> {
/// let config = RateLimitConfig::builder()
///     .trusted_proxies(["10.0.0.0/8", "2001:db8:1::/48"], ForwardedHeader::XForwardedFor)
///     .headers([HeaderStyle::LegacyUnix, HeaderStyle::Draft11])
///     .body(BodyStyle::Problem)
///     .build()?;
/// let app = App::new().app_data(config);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RateLimitConfig(Arc<ConfigFields>);

struct ConfigFields {
    proxies: Networks,
    exempt: Networks,
    forwarded: ForwardedHeader,
    ipv6_prefix: Ipv6Prefix,
    style: Arc<StyleSettings>,
    count_options: bool,
    error_handler: Option<Box<ErrorHandler>>,
}

/// Whether a configuration of this process exempts networks. While none does, code that has no configuration
/// at hand need not look for one.
static ANY_EXEMPT: AtomicBool = AtomicBool::new(false);

/// Whether this process has a configuration. Without one, no request need look for its own.
static ANY_CONFIG: AtomicBool = AtomicBool::new(false);

static DEFAULTS: LazyLock<RateLimitConfig> = LazyLock::new(|| RateLimitConfigBuilder::default().defaults());

impl RateLimitConfig {
    /// Returns a builder with the defaults.
    pub fn builder() -> RateLimitConfigBuilder {
        RateLimitConfigBuilder::default()
    }

    /// The names of all header fields that this configuration may send, for `Access-Control-Expose-Headers`.
    /// Scripts of other origins can read only fields that are listed there.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_actix::RateLimitConfig;
    ///
    /// let names = RateLimitConfig::default().exposed_headers();
    /// // With actix-cors: Cors::default().expose_headers(names)
    /// assert_eq!(names[0], "x-ratelimit-limit");
    /// assert!(names.iter().any(|name| name == "retry-after"));
    /// ```
    pub fn exposed_headers(&self) -> Vec<HeaderName> {
        let styles = self.header_styles().iter();
        styles.flat_map(|style| field_names(*style)).cloned().chain([RETRY_AFTER]).collect()
    }

    /// The nearest configuration around the handler, or the defaults.
    pub(crate) fn nearest(req: &HttpRequest) -> &Self {
        if !ANY_CONFIG.load(Ordering::Relaxed) {
            return &DEFAULTS;
        }
        req.app_data::<Self>()
            .or_else(|| req.app_data::<web::Data<Self>>().map(|shared| &***shared))
            .unwrap_or_else(|| &DEFAULTS)
    }

    /// Whether the application made this configuration. The defaults are those of requests without one.
    pub(crate) fn is_registered(&self) -> bool {
        !Arc::ptr_eq(&self.0, &DEFAULTS.0)
    }

    /// Whether requests with this method are counted.
    pub(crate) fn counts(&self, method: &Method) -> bool {
        self.0.count_options || *method != Method::OPTIONS
    }

    pub(crate) fn proxies(&self) -> &Networks {
        &self.0.proxies
    }

    /// The networks of clients without limits.
    pub(crate) fn exempt(&self) -> &Networks {
        &self.0.exempt
    }

    /// Whether a configuration of this process exempts networks.
    pub(crate) fn any_exempt() -> bool {
        ANY_EXEMPT.load(Ordering::Relaxed)
    }

    pub(crate) fn forwarded(&self) -> &ForwardedHeader {
        &self.0.forwarded
    }

    pub(crate) fn ipv6_prefix(&self) -> Ipv6Prefix {
        self.0.ipv6_prefix
    }

    pub(crate) fn header_styles(&self) -> &[HeaderStyle] {
        &self.0.style.headers
    }

    /// How responses look.
    pub(crate) fn style(&self) -> &Arc<StyleSettings> {
        &self.0.style
    }

    pub(crate) fn error_handler(&self) -> Option<&ErrorHandler> {
        self.0.error_handler.as_deref()
    }
}

impl Default for RateLimitConfig {
    fn default() -> Self {
        ANY_CONFIG.store(true, Ordering::Relaxed);
        RateLimitConfigBuilder::default().defaults()
    }
}

impl fmt::Debug for RateLimitConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &*self.0;
        f.debug_struct("RateLimitConfig")
            .field("trusted_proxies", &settings.proxies)
            .field("exempt", &settings.exempt)
            .field("forwarded", &settings.forwarded)
            .field("ipv6_prefix", &settings.ipv6_prefix)
            .field("headers", &settings.style.headers)
            .field("body", &settings.style.body)
            .finish_non_exhaustive()
    }
}

/// Builds a [`RateLimitConfig`]. Only [`build`](Self::build) validates the settings.
#[must_use = "a builder does nothing until `build`"]
pub struct RateLimitConfigBuilder {
    proxies: Vec<String>,
    exempt: Vec<String>,
    forwarded: ForwardedHeader,
    ipv6_prefix: u8,
    style: StyleSettings,
    count_options: bool,
    error_handler: Option<Box<ErrorHandler>>,
}

impl Default for RateLimitConfigBuilder {
    fn default() -> Self {
        Self {
            proxies: Vec::new(),
            exempt: Vec::new(),
            forwarded: ForwardedHeader::XForwardedFor,
            ipv6_prefix: 64,
            style: StyleSettings::default(),
            count_options: false,
            error_handler: None,
        }
    }
}

impl fmt::Debug for RateLimitConfigBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitConfigBuilder").finish_non_exhaustive()
    }
}

impl RateLimitConfigBuilder {
    /// Takes the client's address from `header` if, and only if, the peer is in one of `networks`. Read from
    /// the right, the client is the first address outside these networks.
    ///
    /// A network is CIDR (`10.0.0.0/8`) or a single address; several are an array or another iterator. List
    /// your own proxies and nothing else: a listed host can choose an address with every request. The default
    /// is an empty list, which trusts no peer.
    pub fn trusted_proxies<Form>(
        mut self,
        networks: impl NetworkList<Form>,
        header: ForwardedHeader,
    ) -> Self {
        self.proxies = networks.into_texts();
        self.forwarded = header;
        self
    }

    /// Applies no limit to clients in these networks: their requests are not counted, are never rejected, and
    /// get no quota fields. For monitors, load tests and other services of your own.
    ///
    /// The address is that of [`client_ip`](crate::client_ip): the peer, or the client that a [trusted
    /// proxy](Self::trusted_proxies) names. A header field of any other peer exempts nothing, and neither
    /// does an IPv4 address inside one of NAT64 or 6to4. A network is CIDR (`10.0.0.0/8`) or a single
    /// address; several are an array or another iterator. The default is an empty list.
    ///
    /// **Warning:** a request that a trusted proxy passes on without naming its client has the address of the
    /// proxy. Do not exempt the address of a proxy that may do so.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_actix::{ForwardedHeader, RateLimitConfig};
    ///
    /// # fn main() -> Result<(), ratelimit_actix::RateLimitConfigError> {
    /// let config = RateLimitConfig::builder()
    ///     .trusted_proxies("192.0.2.10", ForwardedHeader::XForwardedFor)
    ///     .exempt(["10.0.0.0/8", "2001:db8:7::/48"])
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn exempt<Form>(mut self, networks: impl NetworkList<Form>) -> Self {
        self.exempt = networks.into_texts();
        self
    }

    /// Sets how many bits of an IPv6 address distinguish callers, from 32 to 128. The default is 64: a
    /// subscriber has at least a /64, and can use any address in it.
    ///
    /// Addresses of NAT64 (`64:ff9b::/96`) and 6to4 always count as the IPv4 address in them.
    pub const fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.ipv6_prefix = bits;
        self
    }

    /// Sets the header fields that report quotas: `HeaderStyle::Draft11`, several styles in an array, or none
    /// with `[]`. The default is [`HeaderStyle::LegacyUnix`].
    ///
    /// `Retry-After` is independent of this: a response with 429 or 503 has it, unless the request can never
    /// pass.
    pub fn headers(mut self, styles: impl IntoIterator<Item = HeaderStyle>) -> Self {
        self.style.headers = styles.into_iter().collect();
        self
    }

    /// Sets the body of a rejection. The default is [`BodyStyle::Json`].
    pub const fn body(mut self, style: BodyStyle) -> Self {
        self.style.body = style;
        self
    }

    /// Selects the [`BodyStyle`] by the client's `Accept`; by default `false`. The style of
    /// [`body`](Self::body) is for clients that accept any of them, or none.
    pub const fn body_by_accept(mut self, by_accept: bool) -> Self {
        self.style.body_by_accept = by_accept;
        self
    }

    /// Sets a function that renders the body of a rejection, and the media type of that body.
    ///
    /// # Examples
    ///
    /// In the data of one resource it is the message of that resource's limits:
    ///
    /// ```
    /// use actix_web::web;
    /// use ratelimit_actix::RateLimitConfig;
    ///
    /// # fn main() -> Result<(), ratelimit_actix::RateLimitConfigError> {
    /// let config = RateLimitConfig::builder()
    ///     .body_with("text/html", |info| {
    ///         let wait = info.retry_after().map(|wait| format!(" Come back in {wait:?}."));
    ///         format!("<h1>{}</h1>{}", info.status(), wait.unwrap_or_default())
    ///     })
    ///     .build()?;
    /// let search = web::resource("/search").app_data(config);
    /// # Ok(())
    /// # }
    /// ```
    pub fn body_with(
        mut self,
        content_type: impl Into<String>,
        body: impl Fn(&RejectionInfo<'_>) -> String + Send + Sync + 'static,
    ) -> Self {
        self.style.custom_body =
            Some(CustomBody { content_type: content_type.into(), render: Box::new(body) });
        self
    }

    /// Counts `OPTIONS` as well; by default `false`: browsers send preflights on their own, and the request
    /// that follows is counted.
    ///
    /// Choose `true` if a limited handler is mounted for every method (`web::to(..)`,
    /// `web::resource(..).to(..)`): it would do its work for `OPTIONS` uncounted. Alternatively, mount it for
    /// single methods (`web::get().to(..)`, `#[get(..)]`): `OPTIONS` then gets its response without calling
    /// the handler.
    pub const fn count_options(mut self, count: bool) -> Self {
        self.count_options = count;
        self
    }

    /// Sets a function that turns a rejection into an error of your own. Its response is sent instead, with
    /// the fields of the quotas, and with `Retry-After` unless it has one or is a redirect.
    ///
    /// `InternalError::from_response(rejection, response).into()` sends a response of your own. To only
    /// observe rejections, return `rejection.into()`. If a limit was [checked by hand](crate::admit), the
    /// body of the response is read before it is sent. With the feature `test-util`, `RateLimited::for_test`
    /// and its siblings make rejections to test the function with.
    pub fn error_handler(
        mut self,
        handler: impl Fn(Rejection, &HttpRequest) -> actix_web::Error + Send + Sync + 'static,
    ) -> Self {
        self.error_handler = Some(Box::new(handler));
        self
    }

    /// Validates the settings.
    ///
    /// # Errors
    ///
    /// If a network does not parse, the trusted or the exempt networks cover every address, a list of
    /// addresses is set as [`ForwardedHeader::Single`], the IPv6 prefix is not from 32 to 128 bits, two
    /// header styles have a field in common, the content type is not a media type, or a custom body is
    /// combined with the choice by `Accept`.
    pub fn build(self) -> Result<RateLimitConfig, RateLimitConfigError> {
        if let ForwardedHeader::Single(name) = &self.forwarded
            && ([&X_FORWARDED_FOR, &FORWARDED].contains(&name))
        {
            return Err(RateLimitConfigError::ListAsSingle { header: name.clone() });
        }
        let StyleSettings { headers, custom_body, body_by_accept, .. } = &self.style;
        for (i, style) in headers.iter().enumerate() {
            let has_same_field = |other: &&HeaderStyle| {
                field_names(*style).iter().any(|name| field_names(**other).contains(name))
            };
            if let Some(other) = headers[..i].iter().find(has_same_field) {
                return Err(RateLimitConfigError::SameFields { styles: [*other, *style] });
            }
        }
        if let Some(body) = custom_body {
            if !body.is_valid() {
                let content_type = body.content_type.clone();
                return Err(RateLimitConfigError::ContentType { content_type });
            }
            if *body_by_accept {
                return Err(RateLimitConfigError::CustomBodyByAccept);
            }
        }
        let ipv6_prefix = Ipv6Prefix::new(self.ipv6_prefix);
        let ipv6_prefix = ipv6_prefix.ok_or(RateLimitConfigError::Ipv6Prefix { bits: self.ipv6_prefix })?;
        let proxies = networks(&self.proxies, RateLimitConfigError::TrustsEveryAddress)?;
        let exempt = networks(&self.exempt, RateLimitConfigError::ExemptsEveryAddress)?;
        ANY_CONFIG.store(true, Ordering::Relaxed);
        Ok(self.finish(proxies, exempt, ipv6_prefix))
    }

    fn defaults(self) -> RateLimitConfig {
        self.finish(Networks::default(), Networks::default(), Ipv6Prefix::DEFAULT)
    }

    fn finish(self, proxies: Networks, exempt: Networks, ipv6_prefix: Ipv6Prefix) -> RateLimitConfig {
        if !exempt.is_empty() {
            ANY_EXEMPT.store(true, Ordering::Relaxed);
        }
        ipv6_prefix.note_use();
        RateLimitConfig(Arc::new(ConfigFields {
            proxies,
            exempt,
            forwarded: self.forwarded,
            ipv6_prefix,
            style: Arc::new(self.style),
            count_options: self.count_options,
            error_handler: self.error_handler,
        }))
    }
}

/// Parses a list of networks. `covers_all` is the error of a list that covers every address.
fn networks(list: &[String], covers_all: RateLimitConfigError) -> Result<Networks, RateLimitConfigError> {
    Networks::parse(list.iter().map(String::as_str)).map_err(|error| match error {
        NetworkError::Malformed(network) => RateLimitConfigError::Network { network },
        NetworkError::CoversEveryAddress => covers_all,
    })
}
