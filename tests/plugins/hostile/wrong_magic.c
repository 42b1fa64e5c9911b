#define MAGIC UINT64_C(0x1122334455667788)
#include "base.h"
