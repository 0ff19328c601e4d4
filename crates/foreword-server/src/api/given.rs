//! Extractors that validate input and report errors as problems.

use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::problem::{BAD_REQUEST, Problem};

/// A JSON body.
pub(crate) struct Given<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Given<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let Json(value): Json<Value> = Json::from_request(request, state).await?;
        if !value.is_object() {
            return Err(Problem::new(BAD_REQUEST, "the body is not a JSON object"));
        }
        let read = serde_path_to_error::deserialize(value);
        Ok(Self(read.map_err(|error| Problem::new(BAD_REQUEST, format!("field {}: {}", error.path(), error.inner())))?))
    }
}

/// The query of a URL.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(value) = Query::from_request_parts(parts, state).await?;
        Ok(Self(value))
    }
}

/// The path parameters of a URL.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let axum::extract::Path(value) = axum::extract::Path::from_request_parts(parts, state).await?;
        Ok(Self(value))
    }
}

/// The header with the URL of the next page, if there is one.
pub(crate) fn next_page(address: Option<String>) -> HeaderMap {
    let link = address.and_then(|address| HeaderValue::try_from(format!("<{address}>; rel=\"next\"")).ok());
    link.map(|link| (header::LINK, link)).into_iter().collect()
}
