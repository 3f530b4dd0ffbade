// What the fake makes its Foundation objects with.
#pragma once
#import <Foundation/Foundation.h>

NSError* eas_fake_error(const char* domain, NSInteger code, const char* text);
NSArray* eas_fake_array(NSString* const* strings, NSUInteger count);
