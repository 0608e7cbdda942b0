from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('quota', '0004_grant_by_plan'),
    ]

    operations = [
        migrations.AddField(
            model_name='quotaaccount',
            name='past_due_since',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
