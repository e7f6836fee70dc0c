//! dashcam
