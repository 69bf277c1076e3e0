#pragma once

// What every connection of the control plane asks of TCP: small messages at once, and a dead link noticed in
// seconds.
namespace llmtrain {

void set_stream_options(int fd);
// Bytes that the other side's kernel has not acknowledged yet; -1: unknown.
int unacknowledged_bytes(int fd);
// The other side's kernel has everything, or has said something within the last second: what was sent just
// now may be acknowledged a little later.
bool peer_acknowledges(int fd);

}  // namespace llmtrain
