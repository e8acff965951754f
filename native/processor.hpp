// Which levels of x86-64 the processor has and the operating system lets programs use.
#pragma once

namespace quadfeat {

bool has_x86_64_v3();
bool has_x86_64_v4();

}  // namespace quadfeat
