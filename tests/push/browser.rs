//! The receiver of Web Push, which decrypts as a browser does.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A subscription as a browser holds it.
pub(crate) struct Browser {
    private: PrivateKey,
    auth: [u8; 16],
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Browser {
    pub(crate) fn new() -> Self {
        Self { private: PrivateKey::generate(&ECDH_P256).unwrap(), auth: *b"0123456789abcdef" }
    }

    /// The public key and the secret, in base64url.
    pub(crate) fn keys(&self) -> (String, String) {
        let public = self.private.compute_public_key().unwrap();
        (URL_SAFE_NO_PAD.encode(public), URL_SAFE_NO_PAD.encode(self.auth))
    }

    /// RFC 8291 and 8188, from the receiver's side, with the HKDF of the library.
    pub(crate) fn decrypt(&self, message: &[u8]) -> Vec<u8> {
        let (salt, rest) = message.split_at(16);
        let (size, rest) = rest.split_at(4);
        assert!(message.len() <= u32::from_be_bytes(size.try_into().unwrap()) as usize, "one record");
        let (length, rest) = rest.split_at(1);
        let (sender, record) = rest.split_at(usize::from(length[0]));
        let public = self.private.compute_public_key().unwrap();
        let derive = |salt: &[u8], input: &[u8], info: &[u8], length: usize| {
            let mut key = vec![0; length];
            let extracted = Salt::new(HKDF_SHA256, salt).extract(input);
            extracted.expand(&[info], Length(length)).unwrap().fill(&mut key).unwrap();
            key
        };
        let info = [b"WebPush: info\0", public.as_ref(), sender].concat();
        let sender = UnparsedPublicKey::new(&ECDH_P256, sender);
        let input = agree(&self.private, sender, (), |shared| Ok(derive(&self.auth, shared, &info, 32))).unwrap();
        let key = derive(salt, &input, b"Content-Encoding: aes128gcm\0", 16);
        let nonce = derive(salt, &input, b"Content-Encoding: nonce\0", 12);
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).unwrap());
        let mut record = record.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(&nonce).unwrap();
        let plaintext = key.open_in_place(nonce, Aad::empty(), &mut record).unwrap();
        let end = plaintext.iter().rposition(|byte| *byte != 0).unwrap();
        assert_eq!(plaintext[end], 2, "the delimiter of the last record");
        plaintext[..end].to_vec()
    }
}
