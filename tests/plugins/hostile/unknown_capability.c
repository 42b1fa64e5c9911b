#define MORE "\"capabilities\":[\"shared\",\"teleport\"],"
#include "base.h"
