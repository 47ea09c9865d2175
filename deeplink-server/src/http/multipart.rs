//! Forms with files (`multipart/form-data`, RFC 7578), as browsers send them.

use std::convert::Infallible;

use axum::extract::Request;
use bytes::Bytes;
use deeplink_core::error::ErrorCode;
use futures_util::stream;
use http::header;

use super::extract::body_within;
use crate::error::ApiError;

/// A form as it was sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Multipart {
    /// The fields that are no files, in the order they came.
    pub(crate) pairs: Vec<(String, String)>,
    /// The files, by field. If none was chosen, browsers send an empty one.
    files: Vec<(String, Bytes)>,
}

impl Multipart {
    /// Reads a form of at most `limit` bytes: 415 before 413 before 400.
    pub(crate) async fn read(request: Request, limit: usize) -> Result<Self, ApiError> {
        let mut types = request.headers().get_all(header::CONTENT_TYPE).iter();
        let only = types.next().filter(|_| types.next().is_none()).and_then(|value| value.to_str().ok());
        let boundary = only.and_then(|value| multer::parse_boundary(value).ok()).ok_or(ApiError::Plain(
            ErrorCode::UnsupportedMediaType,
            "send Content-Type: multipart/form-data with a boundary",
        ))?;
        let body = body_within(request, limit).await?;
        let form = Self::parse(body, boundary).await;
        form.map_err(|_| ApiError::bad_request("the form is not valid multipart/form-data"))
    }

    /// The file of a field; `None` if there is none, or an empty one.
    pub(crate) fn file(&self, field: &str) -> Option<&Bytes> {
        self.files.iter().find(|(name, _)| name == field).map(|(_, file)| file).filter(|file| !file.is_empty())
    }

    async fn parse(body: Bytes, boundary: String) -> Result<Self, multer::Error> {
        let body = stream::iter([Ok::<_, Infallible>(body)]);
        let (mut parts, mut form) = (multer::Multipart::new(body, boundary), Self::default());
        while let Some(part) = parts.next_field().await? {
            let Some(name) = part.name().map(str::to_owned) else { continue };
            if part.file_name().is_some() {
                form.files.push((name, part.bytes().await?));
            } else {
                form.pairs.push((name, part.text().await?));
            }
        }
        Ok(form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn parsed(body: &str) -> Option<Multipart> {
        Multipart::parse(Bytes::copy_from_slice(body.as_bytes()), "x-1".to_owned()).await.ok()
    }

    #[tokio::test]
    async fn fields_and_files_are_told_apart() {
        let form = parsed(
            "--x-1\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nacme\r\n--x-1\r\n\
             content-disposition: form-data; name=\"file\"; filename=\"a %22; name=%22b.png\"\r\nContent-Type: image/png\
             \r\n\r\n\r\n--x\r\n\r\n--x-1\r\nContent-Disposition: form-data; name=\"none\"; filename=\"\"\r\n\r\n\r\n--x-1--\r\n",
        )
        .await
        .expect("a form");
        assert_eq!(form.pairs, [("name".to_owned(), "acme".to_owned())]);
        assert_eq!(form.file("file").map(|file| &**file), Some(&b"\r\n--x\r\n"[..]));
        assert_eq!((form.file("none"), form.file("name")), (None, None));
        for cut in ["a=b", "--x-1\r\n", "--x-1\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb"] {
            assert_eq!(parsed(cut).await, None, "{cut}");
        }
    }
}
