use duolog_state::{ListId, PageOrder};

use super::*;

#[test]
fn a_day_has_one_notation() {
    assert_eq!("2026-02-28".parse::<Day>().map(|day| day.as_str().to_owned()), Ok("2026-02-28".to_owned()));
    for bad in ["", "2026-02-30", "2026-2-3", "20260203", "2026-02-03T00:00:00Z", "yesterday", "-002026-01-01"] {
        let error = bad.parse::<Day>().expect_err(bad);
        assert!(error.to_string().contains("is not a day"), "{error}");
    }
}

#[test]
fn a_token_parses_again_and_belongs_to_one_report() {
    let [list, other] = [None, Some("ada")].map(|user| ListId::of("usage", &[user]));
    for (by, order) in [(Grouping::Day, "2026-01-31"), (Grouping::Model, ""), (Grouping::Workflow, "é x")] {
        let token = UsageToken::after(list, by, order);
        assert_eq!(token.to_string().parse(), Ok(token.clone()));
        assert_eq!(token.order_in(list, by).expect("of this report"), order);
        assert!(token.order_in(list, Grouping::Session(PageOrder::Created)).is_err());
        assert!(token.order_in(other, by).is_err());
    }
    let token = UsageToken::after(list, Grouping::Session(PageOrder::Created), "2026-01-31T00:00:00.000000Zs");
    assert_eq!(token.to_string().parse(), Ok(token.clone()));
    assert!(token.order_in(list, Grouping::Session(PageOrder::Updated)).is_err(), "of another order");
    for bad in ["", "c61", "s", "x61", "d6", "d6g", "dFF", "d61 ", "D61"] {
        assert!(bad.parse::<UsageToken>().is_err(), "{bad}");
        assert!(format!("{list}.{bad}").parse::<UsageToken>().is_err(), "{bad}");
    }
}
