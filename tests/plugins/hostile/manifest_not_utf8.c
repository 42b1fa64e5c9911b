#define MANIFEST "{\"name\":\"\xff\xfe\"}"
#include "base.h"
