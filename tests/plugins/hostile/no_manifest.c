#define MANIFEST NULL
#include "base.h"
