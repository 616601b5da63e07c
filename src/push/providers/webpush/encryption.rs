//! The content encoding `aes128gcm` (RFC 8188) with the keys of RFC 8291: one record.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hmac::{HMAC_SHA256, Key, Tag, sign};
use aws_lc_rs::rand::fill;

use super::PushSubscription;
use super::subscription::POINT_LENGTH;

/// The size of the salt, in bytes.
const SALT_LENGTH: usize = 16;

/// The record size in the header. The only record may be shorter.
const RECORD_SIZE: u32 = 4096;

/// The size of the header: salt, record size, length of the key, key.
const HEADER_LENGTH: usize = SALT_LENGTH + 4 + 1 + POINT_LENGTH;

/// The delimiter of the last record, before its padding.
const LAST_RECORD: u8 = 2;

/// The number of bytes that encryption adds: header, delimiter and authentication tag.
pub const OVERHEAD: usize = HEADER_LENGTH + 1 + 16;

/// The size of a message after encryption.
pub fn encrypted_len(plaintext: usize) -> usize {
    plaintext + OVERHEAD
}

/// Encrypts a message for a subscription, with a new key and salt.
///
/// # Errors
/// If the message does not fit into one record, or the system provides no random bytes.
pub fn encrypt(plaintext: &[u8], subscription: &PushSubscription) -> Result<Vec<u8>, Unspecified> {
    let mut salt = [0; SALT_LENGTH];
    fill(&mut salt)?;
    encrypt_with(plaintext, subscription, &salt, &PrivateKey::generate(&ECDH_P256)?)
}

fn encrypt_with(
    plaintext: &[u8],
    subscription: &PushSubscription,
    salt: &[u8; SALT_LENGTH],
    private: &PrivateKey,
) -> Result<Vec<u8>, Unspecified> {
    if encrypted_len(plaintext.len()) > RECORD_SIZE as usize {
        return Err(Unspecified);
    }
    let public = private.compute_public_key()?;
    let receiver = UnparsedPublicKey::new(&ECDH_P256, subscription.p256dh());
    let info = [b"WebPush: info\0", &subscription.p256dh()[..], public.as_ref()].concat();
    let input = agree(private, receiver, Unspecified, |shared| Ok(hkdf(subscription.auth(), shared, &info)))?;
    let key = hkdf(salt, input.as_ref(), b"Content-Encoding: aes128gcm\0");
    let nonce = hkdf(salt, input.as_ref(), b"Content-Encoding: nonce\0");

    let mut record = Vec::with_capacity(plaintext.len() + 1 + AES_128_GCM.tag_len());
    record.extend_from_slice(plaintext);
    record.push(LAST_RECORD);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key.as_ref()[..AES_128_GCM.key_len()])?);
    // The sequence number of the first record is 0, so that the nonce is used as it is.
    let nonce = Nonce::try_assume_unique_for_key(&nonce.as_ref()[..AES_128_GCM.nonce_len()])?;
    key.seal_in_place_append_tag(nonce, Aad::empty(), &mut record)?;

    let mut message = Vec::with_capacity(encrypted_len(plaintext.len()));
    message.extend_from_slice(salt);
    message.extend_from_slice(&RECORD_SIZE.to_be_bytes());
    message.push(POINT_LENGTH as u8);
    message.extend_from_slice(public.as_ref());
    message.extend_from_slice(&record);
    Ok(message)
}

/// HKDF with SHA-256 (RFC 5869), up to its first block of 32 bytes, of which shorter keys are a prefix.
fn hkdf(salt: &[u8], input: &[u8], info: &[u8]) -> Tag {
    let extracted = sign(&Key::new(HMAC_SHA256, salt), input);
    sign(&Key::new(HMAC_SHA256, extracted.as_ref()), &[info, &[1]].concat())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    /// RFC 8291, section 5 and appendix A.
    #[test]
    fn the_example_of_rfc_8291() {
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        let subscription = PushSubscription::parse(
            "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV",
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            "BTBZMqHH6r4Tts7J_aSIgg",
        );
        let private = decode("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw");
        let private = PrivateKey::from_private_key(&ECDH_P256, &private).unwrap();
        let salt = decode("DGv6ra1nlYgDCS1FRnbzlw").try_into().unwrap();
        let plaintext = b"When I grow up, I want to be a watermelon";
        let message = encrypt_with(plaintext, &subscription.unwrap(), &salt, &private).unwrap();
        let expected = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS\
            6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";
        assert_eq!(URL_SAFE_NO_PAD.encode(message), expected);
    }

    #[test]
    fn a_record_has_at_most_3993_bytes_of_text() {
        let subscription = PushSubscription::parse(
            "https://push.example.net/x",
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            "BTBZMqHH6r4Tts7J_aSIgg",
        );
        let subscription = subscription.unwrap();
        assert_eq!(encrypt(&[b'x'; 3993], &subscription).unwrap().len(), 4096);
        assert!(encrypt(&[b'x'; 3994], &subscription).is_err());
    }
}
