//! AAC-LC packets to samples, for JavaScript. One decoder for each instance of the module.
//! Names and numbers cross the border only: JavaScript writes a packet to `input` and reads the samples at `plane`.
use std::cell::RefCell;

use symphonia_codec_aac::AacDecoder;
use symphonia_core::audio::{AudioBufferRef, Signal};
use symphonia_core::codecs::{CodecParameters, Decoder, DecoderOptions, CODEC_TYPE_AAC};
use symphonia_core::formats::Packet;

const FAILED: i32 = -1;

#[derive(Default)]
struct State {
    input: Vec<u8>,
    decoder: Option<AacDecoder>,
    planes: Vec<Vec<f32>>,
    sample_rate: u32,
}

thread_local!(static STATE: RefCell<State> = RefCell::default());

/// Where the next `length` bytes of input belong.
#[no_mangle]
pub extern "C" fn input(length: usize) -> *mut u8 {
    STATE.with(|state| {
        let mut state = state.borrow_mut();
        state.input.resize(length, 0);
        state.input.as_mut_ptr()
    })
}

/// Begins with the AudioSpecificConfig in the input.
#[no_mangle]
pub extern "C" fn open() -> i32 {
    STATE.with(|state| {
        let mut state = state.borrow_mut();
        let mut parameters = CodecParameters::new();
        parameters.for_codec(CODEC_TYPE_AAC).with_extra_data(state.input.clone().into_boxed_slice());
        match AacDecoder::try_new(&parameters, &DecoderOptions::default()) {
            Ok(decoder) => {
                state.decoder = Some(decoder);
                0
            }
            Err(_) => FAILED,
        }
    })
}

/// Decodes the packet in the input. The number of samples of each channel.
#[no_mangle]
pub extern "C" fn decode() -> i32 {
    STATE.with(|state| {
        let state = &mut *state.borrow_mut();
        let packet = Packet::new_from_slice(0, 0, 0, &state.input);
        let decoded = match state.decoder.as_mut().map(|decoder| decoder.decode(&packet)) {
            Some(Ok(AudioBufferRef::F32(decoded))) => decoded,
            _ => return FAILED,
        };
        state.sample_rate = decoded.spec().rate;
        state.planes.resize(decoded.spec().channels.count(), Vec::new());
        for (channel, plane) in state.planes.iter_mut().enumerate() {
            plane.clear();
            plane.extend_from_slice(decoded.chan(channel));
        }
        decoded.frames() as i32
    })
}

#[no_mangle]
pub extern "C" fn channels() -> usize {
    STATE.with(|state| state.borrow().planes.len())
}

#[no_mangle]
pub extern "C" fn sample_rate() -> u32 {
    STATE.with(|state| state.borrow().sample_rate)
}

#[no_mangle]
pub extern "C" fn plane(channel: usize) -> *const f32 {
    STATE.with(|state| state.borrow().planes[channel].as_ptr())
}
