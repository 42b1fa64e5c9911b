#define MANIFEST "name = hostile"
#include "base.h"
