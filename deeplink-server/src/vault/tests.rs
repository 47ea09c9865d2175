use base64::engine::general_purpose::STANDARD;

use super::*;

fn key(seed: u64) -> MasterKey {
    MasterKey::generate(&mut Random::seeded(seed))
}

#[test]
fn a_sealed_value_decrypts_for_its_own_row_only() {
    let vault = Vault::of(&key(1), &[]);
    let sealed = vault.seal("mails", "eml_1", b"a secret");
    assert_eq!(vault.open("mails", "eml_1", &sealed).as_deref(), Ok(&b"a secret"[..]));
    for (table, row) in [("mails", "eml_2"), ("mail", "seml_1"), ("service", "eml_1")] {
        assert_eq!(vault.open(table, row, &sealed), Err(DecryptError::Invalid), "{table} {row}");
    }
    assert!(!sealed.contains("a secret"));
    assert_ne!(sealed, vault.seal("mails", "eml_1", b"a secret"), "each value has its own nonce");
}

#[test]
fn every_modified_character_is_detected() {
    let vault = Vault::of(&key(1), &[]);
    let sealed = vault.seal("mails", "eml_1", b"a secret");
    for at in 0..sealed.len() {
        let mut changed = sealed.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).expect("ASCII");
        assert!(vault.open("mails", "eml_1", &changed).is_err(), "{changed}");
    }
    for broken in ["", ".", "nothing", "00000000.", &sealed[..40]] {
        assert!(vault.open("mails", "eml_1", broken).is_err(), "{broken}");
    }
}

#[test]
fn keys_rotate_and_errors_name_a_missing_one() {
    let old = Vault::of(&key(1), &[]);
    let both = Vault::of(&key(2), &[key(1)]);
    let new = Vault::of(&key(2), &[]);
    let sealed_before = old.seal("t", "r", b"x");
    let sealed_after = both.seal("t", "r", b"x");
    assert!(both.open("t", "r", &sealed_before).is_ok());
    assert!(new.open("t", "r", &sealed_after).is_ok());
    assert!(both.is_current(&sealed_after) && !both.is_current(&sealed_before));
    let id = sealed_before.split('.').next().expect("a key id").to_owned();
    assert_eq!(new.open("t", "r", &sealed_before), Err(DecryptError::UnknownKey(id)));
}

#[test]
fn cursors_are_signed_and_survive_a_rotation() {
    let old = Vault::of(&key(1), &[]);
    let mac = old.cursor_mac(b"position 7");
    assert!(Vault::of(&key(2), &[key(1)]).cursor_is_ours(b"position 7", &mac));
    assert!(!Vault::of(&key(2), &[]).cursor_is_ours(b"position 7", &mac));
    assert!(!old.cursor_is_ours(b"position 8", &mac));
    assert!(!old.cursor_is_ours(b"position 7", &mac[..8]) && !old.cursor_is_ours(b"position 7", &[]));
}

/// S15: a code is valid only for the account and the email address it was sent to.
#[test]
fn s15_a_code_is_bound_to_its_account_and_address_and_survives_a_rotation() {
    let mut random = Random::seeded(5);
    let now = deeplink_core::time::Timestamp::from_millis(0);
    let [ours, theirs] = [TenantId::new(now, &mut random), TenantId::new(now, &mut random)];
    let [email, other] = ["a@example.com", "b@example.com"].map(|text| text.parse::<Email>().expect("an address"));
    let code = |text: &str| ConfirmationCode::typed(text).expect("a code");
    let old = Vault::of(&key(1), &[]);
    let mac = old.code_mac(&ours, &email, &code("ABC123"));
    assert_eq!((mac.len(), mac.contains("ABC123")), (64, false));
    assert!(old.code_is(&ours, &email, &code(" abc123 "), &mac));
    assert!(Vault::of(&key(2), &[key(1)]).code_is(&ours, &email, &code("ABC123"), &mac));
    assert!(!Vault::of(&key(2), &[]).code_is(&ours, &email, &code("ABC123"), &mac));
    for (tenant, email, text) in [(&theirs, &email, "ABC123"), (&ours, &other, "ABC123"), (&ours, &email, "ABC124")] {
        assert!(!old.code_is(tenant, email, &code(text), &mac), "{tenant} {email} {text}");
    }
    for broken in ["", "zz", &mac[..32]] {
        assert!(!old.code_is(&ours, &email, &code("ABC123"), broken), "{broken}");
    }
}

#[test]
fn a_master_key_is_32_bytes_in_base64_and_does_not_print_itself() {
    let made = key(3);
    assert_eq!(made.to_base64().parse(), Ok(made.clone()));
    assert_eq!(made.to_base64().trim_end_matches('=').parse(), Ok(made.clone()), "padding is optional");
    assert_eq!(format!("{made:?}"), "[master key]");
    for wrong in ["", "AAAA", "not base64 at all, though it is long enough", &STANDARD.encode([7; 33])] {
        assert_eq!(wrong.parse::<MasterKey>(), Err(NotAMasterKey), "{wrong}");
    }
}
