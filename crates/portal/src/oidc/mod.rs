//! Log-ins with an OpenID Connect provider: the authorization code flow with PKCE, state and nonce (OpenID Connect Core
//! 1.0, section 3.1; RFC 7636).
//!
//! This module identifies the user ([`Identity`]). It does not handle accounts, and the caller decides about access.

mod claims;
mod http;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreClientAuthMethod,
    CoreErrorResponseType, CoreGenderClaim, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm, CoreRevocableToken, CoreRevocationErrorResponse,
    CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::{
    AccessTokenHash, AuthType, AuthorizationCode, Client, ClientId, ClientSecret, CsrfToken,
    EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet, IdToken, IdTokenFields,
    IssuerUrl, LogoutRequest, Nonce, OAuth2TokenResponse as _, PkceCodeChallenge, PkceCodeVerifier,
    PostLogoutRedirectUrl, ProviderMetadataWithLogout, RedirectUrl, Scope, StandardErrorResponse,
    StandardTokenResponse, TokenResponse as _, UserInfoClaims,
};
use tokio::sync::Mutex;
use tracing::warn;

pub(crate) use self::claims::{Extra, Identity, identity, is_enough, key};
use self::http::{Http, TrustError};
pub(crate) use self::settings::OidcSection;

/// How long metadata and keys are cached; a guess. If a token does not match the cached keys, the keys are fetched
/// again.
const CACHE_TIME: Duration = Duration::from_secs(3600);

/// Time after a failed fetch of the metadata during which no other attempt is made; a guess. Meanwhile, log-ins use
/// older metadata, or fail if there is none.
const FAILURE_CACHE_TIME: Duration = Duration::from_secs(5);

/// A token that does not match the cached keys causes a new fetch only if the keys are at least this old.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

type Fields = IdTokenFields<
    Extra,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;

type Token =
    IdToken<Extra, CoreGenderClaim, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm>;

type Flow = Client<
    Extra,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    StandardTokenResponse<Fields, CoreTokenType>,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// Asymmetric signature algorithms, with which only the provider can sign. Algorithms that sign with the client secret
/// are excluded.
const SIGNATURES: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// Why a log-in fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OidcError {
    /// The provider is unreachable, or its response is not usable.
    #[error("no usable response from the provider: {0}")]
    Provider(String),
    /// The provider answers the request for a token with an error, for example because the code was used, has expired,
    /// or is forged.
    #[error("the provider rejected the code: {0}")]
    Code(String),
    /// The provider's token is invalid.
    #[error("invalid token of the provider: {0}")]
    Token(String),
}

/// Why the provider cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The configuration is invalid.
    #[error("{0}")]
    Settings(String),
    /// The secret cannot be read.
    #[error("oidc.client_secret_file: {0}")]
    Secret(String),
    /// The HTTP client cannot be set up.
    #[error("oidc.ca: {0}")]
    Trust(#[from] TrustError),
}

/// A started log-in: the URL to open, and the values to verify at the end of the log-in.
pub(crate) struct StartedLogin {
    pub(crate) url: String,
    pub(crate) attempt: Secrets,
}

/// The values to verify at the end of a log-in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Secrets {
    /// The provider returns this value in the redirect.
    pub(crate) state: String,
    /// The provider returns this value in the token.
    pub(crate) nonce: String,
    /// The PKCE verifier, which the portal sends to the provider with the code.
    pub(crate) verifier: String,
}

/// The configured provider.
pub(crate) struct Provider {
    section: OidcSection,
    issuer: IssuerUrl,
    redirect: RedirectUrl,
    secret: Option<ClientSecret>,
    http: Http,
    /// Locked during a request, so concurrent callers wait for the same response.
    known: Mutex<ProviderCache>,
}

/// Cached metadata, and the last failure.
#[derive(Default)]
struct ProviderCache {
    metadata: Option<(Instant, Arc<ProviderMetadataWithLogout>)>,
    failed: Option<(Instant, String)>,
}

impl Provider {
    /// Reads the client secret. Does not contact the provider, so that the portal can start while the provider is
    /// unreachable.
    ///
    /// # Errors
    /// Returns an error if the table is invalid, if the client secret cannot be read, or if the HTTP client cannot be
    /// set up.
    pub(crate) fn open(section: OidcSection) -> Result<Provider, OpenError> {
        section.check().map_err(OpenError::Settings)?;
        let wrong = |why: openidconnect::url::ParseError| OpenError::Settings(why.to_string());
        let issuer = IssuerUrl::new(section.issuer.clone()).map_err(wrong)?;
        let redirect = RedirectUrl::new(section.callback()).map_err(wrong)?;
        let secret = match &section.client_secret_file {
            None => None,
            Some(path) => {
                let of = |why: &str| OpenError::Secret(format!("{}: {why}", path.display()));
                let text = std::fs::read_to_string(path).map_err(|why| of(&why.to_string()))?;
                let text = text.trim();
                if text.is_empty() {
                    return Err(of("the file is empty"));
                }
                Some(ClientSecret::new(text.to_owned()))
            }
        };
        let http = Http::new(section.ca.as_deref())?;
        Ok(Provider {
            section,
            issuer,
            redirect,
            secret,
            http,
            known: Mutex::default(),
        })
    }

    /// The provider's configuration.
    pub(crate) fn section(&self) -> &OidcSection {
        &self.section
    }

    /// Starts a log-in.
    ///
    /// # Errors
    /// Returns an error if the provider is unreachable.
    pub(crate) async fn start(&self) -> Result<StartedLogin, OidcError> {
        let flow = self.flow(&*self.metadata().await?);
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let mut request = flow
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                CsrfToken::new_random,
                Nonce::new_random,
            )
            .set_pkce_challenge(challenge);
        for scope in &self.section.scopes {
            request = request.add_scope(Scope::new(scope.clone()));
        }
        let (url, state, nonce) = request.url();
        Ok(StartedLogin {
            url: url.to_string(),
            attempt: Secrets {
                state: state.secret().clone(),
                nonce: nonce.secret().clone(),
                verifier: verifier.secret().clone(),
            },
        })
    }

    /// Exchanges the code for the user's identity.
    ///
    /// # Errors
    /// Returns an error if the provider does not respond, rejects the code, or returns an invalid token.
    pub(crate) async fn finish(
        &self,
        code: String,
        attempt: Secrets,
    ) -> Result<Identity, OidcError> {
        let metadata = self.metadata().await?;
        let flow = self.flow(&metadata);
        let request = flow
            .exchange_code(AuthorizationCode::new(code))
            .map_err(|why| OidcError::Provider(why.to_string()))?
            .set_pkce_verifier(PkceCodeVerifier::new(attempt.verifier));
        let response = request.request_async(&self.http).await;
        let response = response.map_err(|why| match &why {
            openidconnect::RequestTokenError::ServerResponse(said) => {
                OidcError::Code(said.to_string())
            }
            openidconnect::RequestTokenError::Request(why) => OidcError::Provider(why.to_string()),
            _ => OidcError::Provider(why.to_string()),
        })?;
        let token = response.id_token();
        let token = token.ok_or_else(|| OidcError::Token("missing".to_owned()))?;
        let nonce = Nonce::new(attempt.nonce);
        let access = response.access_token();
        let claims = match self.verify(&metadata, token, &nonce, Some(access)) {
            Ok(claims) => claims,
            // The provider may have new keys, so one more attempt with newer metadata follows.
            Err(why) => match self.metadata_again(&metadata).await? {
                None => return Err(why),
                Some(metadata) => self.verify(&metadata, token, &nonce, Some(access))?,
            },
        };
        let mut all = vec![claims.all];
        if !is_enough(&self.section, &all[0]) && metadata.userinfo_endpoint().is_some() {
            let subject = openidconnect::SubjectIdentifier::new(claims.subject.clone());
            let asked = flow.user_info(access.clone(), Some(subject));
            let asked = asked.map_err(|why| OidcError::Provider(why.to_string()))?;
            let info: UserInfoClaims<Extra, CoreGenderClaim> = (asked.request_async(&self.http))
                .await
                .map_err(|why| OidcError::Provider(why.to_string()))?;
            all.extend(serde_json::to_value(&info));
        }
        Ok(identity(&self.section, &claims.subject, &all))
    }

    /// The provider's log-out URL; `None` if the provider has no such URL or is unreachable.
    pub(crate) async fn log_out(&self) -> Option<String> {
        let metadata = self.metadata().await.ok()?;
        let end = metadata
            .additional_metadata()
            .end_session_endpoint
            .clone()?;
        let back =
            PostLogoutRedirectUrl::new(format!("{}/", self.section.address.trim_end_matches('/')));
        let request = LogoutRequest::from(end)
            .set_client_id(ClientId::new(self.section.client_id.clone()))
            .set_post_logout_redirect_uri(back.ok()?);
        Some(request.http_get_url().to_string())
    }

    /// Verifies a token's signature, issuer, audience, time, nonce and access-token hash, and returns its claims.
    fn verify(
        &self,
        metadata: &ProviderMetadataWithLogout,
        token: &Token,
        nonce: &Nonce,
        access: Option<&openidconnect::AccessToken>,
    ) -> Result<Verified, OidcError> {
        let flow = self.flow(metadata);
        let verifier = flow.id_token_verifier().set_allowed_algs(SIGNATURES);
        let wrong = |why: &dyn std::fmt::Display| OidcError::Token(why.to_string());
        let claims = token.claims(&verifier, nonce).map_err(|e| wrong(&e))?;
        if let (Some(said), Some(access)) = (claims.access_token_hash(), access) {
            let algorithm = token.signing_alg().map_err(|e| wrong(&e))?;
            let key = token.signing_key(&verifier).map_err(|e| wrong(&e))?;
            let is = AccessTokenHash::from_token(access, algorithm, key).map_err(|e| wrong(&e))?;
            if is != *said {
                return Err(wrong(&"the ID token belongs to another access token"));
            }
        }
        Ok(Verified {
            subject: claims.subject().to_string(),
            all: serde_json::to_value(claims).map_err(|e| wrong(&e))?,
        })
    }

    fn flow(&self, metadata: &ProviderMetadataWithLogout) -> Flow {
        let id = ClientId::new(self.section.client_id.clone());
        let flow = Flow::from_provider_metadata(metadata.clone(), id, self.secret.clone())
            .set_redirect_uri(self.redirect.clone());
        // Unless the provider's metadata excludes it, the client authenticates by `client_secret_basic`, which is the
        // default of OpenID Connect.
        let basic = metadata.token_endpoint_auth_methods_supported();
        match basic.is_none_or(|ways| ways.contains(&CoreClientAuthMethod::ClientSecretBasic)) {
            true => flow,
            false => flow.set_auth_type(AuthType::RequestBody),
        }
    }

    async fn metadata(&self) -> Result<Arc<ProviderMetadataWithLogout>, OidcError> {
        let mut known = self.known.lock().await;
        match &known.metadata {
            Some((since, metadata)) if since.elapsed() < CACHE_TIME => Ok(Arc::clone(metadata)),
            Some((_, metadata)) => {
                let old = Arc::clone(metadata);
                // Stale metadata is better than none.
                Ok(self.discover(&mut known).await.unwrap_or(old))
            }
            None => self.discover(&mut known).await,
        }
    }

    /// Fetches metadata and keys that are newer than `old`. Returns `None` if `old` was fetched within the last
    /// [`RETRY_INTERVAL`].
    async fn metadata_again(
        &self,
        old: &Arc<ProviderMetadataWithLogout>,
    ) -> Result<Option<Arc<ProviderMetadataWithLogout>>, OidcError> {
        let mut known = self.known.lock().await;
        match &known.metadata {
            Some((_, newer)) if !Arc::ptr_eq(newer, old) => Ok(Some(Arc::clone(newer))),
            Some((since, _)) if since.elapsed() < RETRY_INTERVAL => Ok(None),
            _ => self.discover(&mut known).await.map(Some),
        }
    }

    async fn discover(
        &self,
        known: &mut ProviderCache,
    ) -> Result<Arc<ProviderMetadataWithLogout>, OidcError> {
        if let Some((since, why)) = &known.failed
            && since.elapsed() < FAILURE_CACHE_TIME
        {
            return Err(OidcError::Provider(why.clone()));
        }
        let found = ProviderMetadataWithLogout::discover_async(self.issuer.clone(), &self.http);
        match found.await {
            Ok(found) => {
                let found = Arc::new(found);
                known.metadata = Some((Instant::now(), Arc::clone(&found)));
                known.failed = None;
                Ok(found)
            }
            Err(why) => {
                let why = match why {
                    openidconnect::DiscoveryError::Request(why) => why.to_string(),
                    other => other.to_string(),
                };
                warn!(
                    "cannot fetch the metadata of {}: {why}",
                    self.section.issuer
                );
                known.failed = Some((Instant::now(), why.clone()));
                Err(OidcError::Provider(why))
            }
        }
    }

    /// Like `verify`, but takes the token as text.
    #[cfg(test)]
    fn verify_text(
        &self,
        metadata: &ProviderMetadataWithLogout,
        token: &str,
        nonce: &str,
    ) -> Result<Identity, OidcError> {
        let token: Result<Token, _> = token.parse();
        let token = token.map_err(|why| OidcError::Token(why.to_string()))?;
        let nonce = Nonce::new(nonce.to_owned());
        let claims = self.verify(metadata, &token, &nonce, None)?;
        Ok(identity(&self.section, &claims.subject, &[claims.all]))
    }
}

/// The claims of a verified token.
struct Verified {
    subject: String,
    all: serde_json::Value,
}
