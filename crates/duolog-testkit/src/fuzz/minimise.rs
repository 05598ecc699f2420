//! Making an input small that breaks a rule.

/// How often an input is tried; what is left then is small enough to be read.
const TRIES_MAX: u32 = 4000;

/// The input with as much left out as still leaves it `bad`, and its bytes as plain as they can be.
pub(super) fn minimise(input: &[u8], bad: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut small = input.to_vec();
    let mut tries = 0;
    let mut try_it = |candidate: &[u8]| {
        tries += 1;
        tries <= TRIES_MAX && bad(candidate)
    };
    let mut chunk = small.len().div_ceil(2);
    while chunk > 0 {
        let (mut at, mut shrunk) = (0, false);
        while at < small.len() {
            let end = small.len().min(at + chunk);
            let without = [&small[..at], &small[end..]].concat();
            if try_it(&without) {
                (small, shrunk) = (without, true);
            } else {
                at = end;
            }
        }
        if !shrunk {
            chunk /= 2;
        }
    }
    for at in 0..small.len() {
        for plain in [b'0', b'a'] {
            let before = small[at];
            if before == b'\n' || before == plain {
                continue;
            }
            small[at] = plain;
            if try_it(&small) {
                break;
            }
            small[at] = before;
        }
    }
    small
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let bad = |input: &[u8]| input.windows(2).any(|pair| pair == b"{]") && input.contains(&b'7');
        let input = [&[b'x'; 300][..], b"12{]3", &[b'y'; 500], b"77"].concat();
        let small = minimise(&input, bad);
        assert!(bad(&small) && small.len() == 3, "{small:?}");
    }
}
