// Detect the x86-64 levels that both the processor and the operating system support.
#pragma once

namespace quadfeat {

bool has_x86_64_v3();
bool has_x86_64_v4();

}  // namespace quadfeat
