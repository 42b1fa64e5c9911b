/* Built for major 2 only. */
#define SYMBOL fmail_plugin_v2
#include "base.h"
