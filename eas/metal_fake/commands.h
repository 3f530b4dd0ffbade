// The fake's queue of commands; eas_fake_wake lets its threads look again.
#pragma once
#import "resources.h"

void eas_fake_wake(void);
