//! The login name of the user, from `/etc/passwd` or the environment.

use std::env;
use std::fs::File;
use std::io::Read as _;

/// The maximum number of bytes read from `/etc/passwd`.
const LIST_BYTES_MAX: u64 = 1 << 20;

/// Returns the login name of the user of this process; `None` if it is unknown.
pub fn name() -> Option<String> {
    let variable = |name| env::var(name).ok().filter(|login: &String| !login.trim().is_empty());
    listed().or_else(|| variable("USER")).or_else(|| variable("LOGNAME"))
}

/// Returns the name in `/etc/passwd`.
fn listed() -> Option<String> {
    let mut list = Vec::new();
    File::open("/etc/passwd").ok()?.take(LIST_BYTES_MAX).read_to_end(&mut list).ok()?;
    in_list(&String::from_utf8_lossy(&list), rustix::process::getuid().as_raw())
}

fn in_list(list: &str, uid: u32) -> Option<String> {
    let named = |line: &str| {
        let mut fields = line.split(':');
        let (name, _, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    };
    list.lines().find_map(named)
}

#[cfg(test)]
mod tests {
    use super::in_list;

    #[test]
    fn a_login_is_found_by_its_number() {
        let list =
            "root:x:0:0:root:/root:/bin/bash\n# a word\nbroken\n:x:7:7::/:\nada:x:1000:1000:Ada:/home/ada:/bin/sh\n";
        assert_eq!(in_list(list, 0).as_deref(), Some("root"));
        assert_eq!(in_list(list, 1000).as_deref(), Some("ada"));
        assert_eq!((in_list(list, 7), in_list(list, 9), in_list("", 0)), (None, None, None));
    }
}
