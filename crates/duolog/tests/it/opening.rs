use duolog::sessions::SessionFilter;
use duolog::{Address, Durability, ErrorKind, Page, Store, StoreOptions};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, line, lines};

on_both_engines!(rows_go_to_the_state_and_lines_to_the_home, a_reader_creates_no_state);

fn rows_go_to_the_state_and_lines_to_the_home(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("plan").expect("made");
    store.log(&session.id).append(&line("{\"n\":1}"), Durability::Power).expect("appended");
    assert_eq!(std::fs::read(apart.log(&session.log_path)).expect("a log"), b"{\"n\":1}\n");
    assert!(!apart.log("state.db").exists(), "the database is elsewhere");
    store.close().expect("closes");

    let store = Store::open(apart.options().for_reading()).expect("opens");
    assert!(store.is_writable(), "a reader folds if it can");
    let list = store.sessions().list(&SessionFilter::default(), &Page::new(10, None)).expect("lists");
    assert_eq!((list.sessions[0].name.as_deref(), list.sessions[0].events), (Some("plan"), Some(1)));
    assert_eq!(lines(&store, &session.id), ["{\"n\":1}"]);
    assert_eq!(store.place(), place.address().to_string());
}

fn a_reader_creates_no_state(place: &Place) {
    let apart = Apart::of(place);
    std::fs::create_dir_all(apart.home().state).expect("a home that is an empty directory");
    let refused = Store::open(apart.options().for_reading()).err().expect("there is nothing to read");
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    assert!(refused.to_string().contains(&place.address().to_string()), "{refused}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("for writing creates")), "{refused}");
    match place.database() {
        None => assert!(!place.home().join("state.db").exists()),
        Some(database) => {
            let tables = "SELECT COUNT(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace";
            assert_eq!(database.run_sql(tables).expect("answers"), "0");
        }
    }
    apart.open().close().expect("a writer creates it");
    assert!(Store::open(apart.options().for_reading()).is_ok());
}

#[test]
fn a_reader_creates_no_directory() {
    let place = Place::sqlite();
    let apart = Apart::of(&place);
    apart.open().close().expect("closes");
    let nowhere = apart.directory.path().join("no/such/place");
    let options =
        StoreOptions::at(apart.home()).with_store(duolog::StoreAddress::At(Address::Directory(nowhere.clone())));
    assert_eq!(Store::open(options.for_reading()).err().expect("nothing is there").kind(), ErrorKind::NotFound);
    assert!(!nowhere.exists());
}
