//! Searching the logs of another program: every log is read, and no index is used.

use duolog_search::Matcher;
use duolog_types::{Epoch, with_causes};

use super::model::{Found, HitToken};
use super::reading::Reading;
use super::rules::Page;
use super::scan::{Rest, Scan};
use super::{SearchRequest, check_token};
use crate::error::Result;
use crate::log::{Directory, DirectoryLog};

/// Finds texts in the logs of a directory, newest first. `tell` is called with the number of bytes read and the total
/// number of bytes.
///
/// The session of a hit is [`DirectoryLog::id`]. A log that cannot be read is listed in the result, and the others are
/// still searched.
///
/// # Errors
///
/// Returns an error if the token belongs to another search.
pub fn find_in(directory: &Directory, request: &SearchRequest, tell: &mut dyn FnMut(u64, u64)) -> Result<Found> {
    check_token(request)?;
    let mut found = Found { without_index: Some("a directory has no index".to_owned()), ..Found::default() };
    let mut page = Page::new(request.limit, request.after.as_ref().map(|token| token.key.clone()));
    let mut matcher = Matcher::new(&request.query);
    let (mut done, of) = (0, directory.bytes());
    for log in directory.logs() {
        let mut scan = Scan {
            filter: &request.filter,
            line_bytes_max: directory.line_bytes_max,
            page: &mut page,
            matcher: &mut matcher,
            found: &mut found,
        };
        let scanned = rest_of(directory, log).and_then(|rest| scan.lines(&log.id, Epoch::default(), rest));
        if let Err(error) = scanned {
            found.note_unread(&log.id, with_causes(&error));
        }
        done += log.end.0;
        tell(done, of);
    }
    for (id, (_, why)) in directory.unread_ids.iter().zip(directory.unread()) {
        found.note_unread(id, why.clone());
    }
    let (hits, next) = page.finish();
    let next = next.map(|key| HitToken { list: request.list(), key });
    Ok(Found { hits, next, ..found })
}

fn rest_of(directory: &Directory, log: &DirectoryLog) -> Result<Rest> {
    let reader = directory.reader(log)?;
    let reading = Reading::begin(&reader, log.end, directory.line_bytes_max)?;
    let from = reader.first();
    Ok(Rest { reader, reading, from, to: log.end })
}
