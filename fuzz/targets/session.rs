//! An exported session: whatever the file says, it is refused, or what was taken in is whole and reads back.

#![no_main]

use foreword_store::{Dump, Sqlite, Store};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(dump) = serde_json::from_slice::<Dump>(data) else { return };
    let mut store = Sqlite::in_memory().expect("memory holds a store");
    if store.load(&dump).is_err() {
        return;
    }
    let faults = store.check().expect("the store can be checked");
    assert!(faults.is_empty(), "{faults:?}");
    let again = store.dump(&dump.id).expect("what was taken in can be given out");
    assert_eq!((again.log.len(), again.requests.len()), (dump.log.len(), dump.requests.len()));
});
